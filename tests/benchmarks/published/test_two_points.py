"""Two numbers from two systems: exact where steps are a line of the pipeline, and within the aim on MLPerf."""

from dataclasses import replace

import pytest
from benchmarks.published.accuracy import DATA
from benchmarks.published.two_points import AIM, TwoNumbers, two_numbers, two_numbers_table

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of

MLPERF = read_runs(DATA / "mlperf.csv")


def groups(runs: tuple[MeasuredRun, ...]) -> list[TwoNumbers]:
    return two_numbers({"runs.csv": runs})


def made(run: MeasuredRun) -> MeasuredRun:
    """Give a run the step that two numbers make of its pipeline."""
    measurement = measurement_of(completed(run))
    pipeline_s = measurement.prediction(measurement.reached).simulation.makespan_ns / 1e9
    return replace(run, step_s=1.25 * pipeline_s + 0.5)


def test_two_numbers_are_found() -> None:
    found = groups(tuple(map(made, MLPERF)))
    assert len(found) == 3
    for group in found:
        assert group.factor == pytest.approx(1.25)
        assert group.constant_s == pytest.approx(0.5)
        assert all(abs(error.relative) < 1e-9 for error in group.errors)


def test_systems_of_a_round_of_mlperf() -> None:
    found = groups(MLPERF)
    assert sorted(len(group.errors) for group in found) == [3, 5, 6]  # of 5, 7 and 8 systems
    for group in found:
        assert sum(abs(error.relative) for error in group.errors) / len(group.errors) < AIM
        assert not {error.id for error in group.errors} & set(group.known)
    lines = two_numbers_table(found).splitlines()
    assert len(lines) == 4
    assert all("mlcommons/training_results_v" in line for line in lines[1:])


def test_too_few_or_equal_systems_say_nothing() -> None:
    assert groups(MLPERF[:2]) == []
    same = MLPERF[0]
    assert groups((same, replace(same, id="b"), replace(same, id="c"))) == []
    assert groups(tuple(replace(run, step_s=None) for run in MLPERF)) == []
