"""What generations reach is found again from runs that were made with it; ranges are those of the residuals."""

from dataclasses import replace

import pytest
from benchmarks.published.accuracy import DATA

from benchmarks.published import defaults
from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.predict import expected_error
from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.measured.reading import read_runs

MPT = read_runs(DATA / "mosaicml_mpt.csv")


def test_every_accelerator_reaches_what_its_generation_does() -> None:
    assert {accelerator.generation for accelerator in ACCELERATORS.values()} == set(GENERATIONS)
    for accelerator in ACCELERATORS.values():
        assert accelerator.reached == GENERATIONS[accelerator.generation]


def test_rows_have_a_step_and_known_devices() -> None:
    rows = defaults.rows_of(read_runs(DATA / "megatron_golden.csv"))
    assert 0 < len(rows) < 10  # ten have a step, and most of these do not say how many devices there were
    assert all(row.run.gpus and row.measurement.step_ns for row in rows)


def test_the_text_of_generations_says_their_values() -> None:
    known = {"New": Reached(product_share=0.12345, operator_ns=61_695.0), "Usual": Reached()}
    found = eval("{" + defaults.generations_text(known) + "}")
    assert found["New"] == Reached(product_share=0.123, operator_ns=61_700)
    assert found["Usual"] == Reached()


def test_ranges_are_the_middle_of_residuals_and_every_source_weighs_the_same() -> None:
    many, few = [value / 100 for value in range(-10, 11)], [1.0] * defaults.FEWEST
    found = defaults.ranges({"kind": {"a": many, "b": few}})
    low, high, runs, sources = found["kind"]
    assert (runs, sources) == (21 + defaults.FEWEST, 2)
    assert low == pytest.approx(-0.06)  # a fifth of the first source, which has half of the weight
    assert high == 1.0
    assert defaults.ranges({"kind": {"a": many * 50, "b": few}})["kind"][:2] == pytest.approx((low, high))
    one_more = {"kind": {"a": many, "b": few[:1], "c": many}}
    assert defaults.ranges(one_more)["kind"][1] == pytest.approx(0.1)  # one run decides less


def test_what_runs_were_made_with_is_found_again() -> None:
    truth = replace(GENERATIONS["Ampere"], product_share=0.6, attention_share=0.9)
    rows = [row for row in defaults.rows_of(MPT) if row.generation == "Ampere"][::6]
    made = [
        replace(row, measurement=replace(row.measurement, step_ns=row.measurement.predicted(Quantity.TIME, truth)))
        for row in rows
    ]
    found = defaults.fitted_generations(made)
    assert found["Ampere"].product_share == pytest.approx(0.6, rel=0.02)
    assert found["Hopper"].memory_share == found["Ampere"].memory_share  # taken over
    assert found["Hopper"].product_share == Reached().product_share  # no run of it
    untouched = defaults.fitted_generations(made, without="mosaicml-mpt")
    assert untouched["Ampere"] == Reached()
    assert untouched["Ascend"] == GENERATIONS["Ascend"]  # never fitted


def test_residuals_are_of_runs_that_were_left_out() -> None:
    rows = defaults.rows_of(MPT)[:5]
    compared = defaults.left_out(rows, {})
    found = defaults.residuals(compared)
    kind, model, every = compared[0].kinds
    for row, residual in zip(rows, found[every]["mosaicml-mpt"], strict=True):
        predicted = row.measurement.predicted(Quantity.TIME, Reached())
        assert residual == pytest.approx((row.measurement.step_ns or 0) / predicted - 1)
    assert found[kind] == found[model] == found[every]


def test_files_are_changed_between_their_marks_alone(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "ranges.py"
    path.write_text("before\n    # begin: ranges\n    old\n    # end: ranges\nafter\n", encoding="utf-8")
    monkeypatch.setattr(expected_error, "__file__", str(path))
    defaults.write_ranges({"b": (-0.1234, 0.5, 3, 2), "a": (-0.1, 0.1, 1, 1)}, expected_error)
    assert path.read_text(encoding="utf-8") == (
        'before\n    # begin: ranges\n    "a": (-0.100, 0.100, 1, 1),\n    "b": (-0.123, 0.500, 3, 2),\n'
        "    # end: ranges\nafter\n"
    )
    assert set(PARAMETERS) >= {name for stage in defaults.STAGES for name in stage.names}
