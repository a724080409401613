"""Which runs a calibration takes, on which devices, and what is said of the others."""

from dataclasses import replace

import pytest

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.errors import InputError
from evenflow.profiles.measured.to_calibrate import runs_to_calibrate
from tests.profiles.measured.rows import make_run

RUN = make_run()
A100_RUN = make_run(id="older", hardware="a100")


def test_the_accelerator_is_the_one_that_the_runs_state() -> None:
    found = runs_to_calibrate([RUN, make_run(id="b", hardware="")], None)
    assert found.accelerator == accelerator_named("h100")
    assert [one.name for one in found.measurements] == ["a", "b"]
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([RUN, A100_RUN], r"--accelerator must be given: the runs are on h100, a100-80; name one"),
        ([make_run(hardware="")], r"--accelerator must be given: no run states its hardware"),
        ([make_run(hardware="abacus")], "accelerator must be one of"),
    ],
)
def test_without_an_accelerator_the_runs_must_agree(runs, message) -> None:
    with pytest.raises(InputError, match=message):
        runs_to_calibrate(runs, None)


def test_runs_of_another_accelerator_are_left_out_and_named() -> None:
    found = runs_to_calibrate([RUN, A100_RUN], accelerator_named("h100"))
    assert [one.name for one in found.measurements] == ["a"]
    assert [(one.name, one.reason) for one in found.left_out] == [("older", "it ran on a100")]


@pytest.mark.parametrize(("name", "taken"), [("a100-40", True), ("a100-80", True), ("h100", False)])
def test_a_name_without_its_memory_may_be_either_size(name, taken) -> None:
    runs = [A100_RUN, make_run(id="other", hardware=name)]
    found = runs_to_calibrate(runs, accelerator_named(name))
    assert ("older" in {one.name for one in found.measurements}) is taken


def test_a_file_takes_all_runs_of_its_generation() -> None:
    ours = replace(accelerator_named("h100"), name="hall-3", memory_bytes_per_s=3e12)
    found = runs_to_calibrate([RUN, make_run(id="b", hardware="h200"), A100_RUN], ours)
    assert {one.topology.accelerator for one in found.measurements} == {ours}
    assert [one.name for one in found.left_out] == ["older"]


def test_a_run_follows_the_habits_of_its_accelerator() -> None:
    stated = make_run(hardware="", precision="")
    ours = replace(accelerator_named("a100"), name="hall-2")
    for accelerator in (accelerator_named("a100"), ours):
        (measurement,) = runs_to_calibrate([stated], accelerator).measurements
        assert measurement.training.precision == "fp16"


@pytest.mark.parametrize(
    ("cells", "accelerator", "domain"),
    [({}, "h100", 8), ({"gpus_per_node": "4"}, "h100", 4), ({"gpus_per_node": "4", "hardware": "gb200"}, "gb200", 72)],
)
def test_a_node_is_as_large_as_the_run_says_and_a_rack_as_the_accelerator(cells, accelerator, domain) -> None:
    (measurement,) = runs_to_calibrate([make_run(**cells)], accelerator_named(accelerator)).measurements
    assert measurement.topology.domain_devices == domain


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"hidden": "", "seq": ""}, "it does not state hidden, seq"),
        ({"step_s": ""}, "it has neither a step nor memory"),
        ({"tp": "3", "dp": "", "gpus": ""}, "tensor must divide the heads"),
    ],
)
def test_runs_that_cannot_be_taken_are_named_with_the_reason(cells, reason) -> None:
    found = runs_to_calibrate([RUN, make_run(id="odd", **cells)], None)
    (odd,) = found.left_out
    assert odd.name == "odd"
    assert odd.reason.startswith(reason)
    with pytest.raises(InputError, match=f"the run odd must be one that can be predicted: {reason}"):
        runs_to_calibrate([make_run(id="odd", **cells)], accelerator_named("h100"))


def test_what_is_assumed_is_counted() -> None:
    runs = [make_run(vocab=""), make_run(id="b", vocab="", precision=""), make_run(id="c")]
    found = runs_to_calibrate(runs, None)
    assert [(one.field, one.value, count) for one, count in found.assumed] == [
        ("vocab", 50_257, 2),
        ("precision", "bf16", 1),
    ]
