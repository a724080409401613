"""Predictions beside measurements, with nothing known and with some runs known."""

from dataclasses import replace

import pytest
from benchmarks.published.guesses import HALF, guess_all, memory_errors, time_errors
from benchmarks.published.predictor import Predicted

from evenflow.errors import InputError
from tests.profiles.measured.rows import make_run

RUNS = [make_run(id=f"row {index}", step_s=str(index + 1), mem_gib="30") for index in range(7)]


def two_seconds(run) -> Predicted:
    return Predicted(step_s=2.0, memory_gib=15.0)


def middle(predictor, known):
    assert predictor is two_seconds
    step = sum(run.step_s for run in known) / len(known)
    return lambda run: replace(predictor(run), step_s=step)


def test_all_runs_are_predicted_with_nothing_known() -> None:
    guesses = guess_all({"file.csv": RUNS}, two_seconds, calibrate=middle)
    assert [error.relative for error in time_errors(guesses)] == pytest.approx([2 / n - 1 for n in range(1, 8)])
    assert {error.relative for error in memory_errors(guesses)} == {-0.5}


def test_known_runs_are_not_scored_and_every_source_has_its_own() -> None:
    others = [make_run(id=f"other {index}", source="other", step_s="10") for index in range(3)]
    guesses = guess_all({"file.csv": [*RUNS, *others]}, two_seconds, calibrate=middle, points=1)
    assert {guess.run.id for guess in guesses} == {f"row {n}" for n in (0, 1, 2, 4, 5, 6)} | {"other 0", "other 2"}
    assert {guess.predicted.step_s for guess in guesses} == {4.0, 10.0}


def test_half_of_a_source_predicts_the_other_half() -> None:
    guesses = guess_all({"file.csv": RUNS}, two_seconds, calibrate=middle, points=HALF)
    assert {guess.run.id for guess in guesses} == {"row 0", "row 2", "row 4", "row 6"}


def test_a_source_with_too_few_runs_or_that_calibration_refuses_is_left_out() -> None:
    def refuse(predictor, known):
        raise InputError(value=None, rule="must differ", place="the runs")

    assert guess_all({"file.csv": RUNS[:3]}, two_seconds, calibrate=middle, points=3) == []
    assert guess_all({"file.csv": RUNS}, two_seconds, calibrate=refuse, points=1) == []


def test_predictors_see_completed_runs_and_refusals_are_kept() -> None:
    seen = []

    def picky(run) -> Predicted:
        seen.append(run)
        raise InputError(value=3, rule="must divide 32", place="heads")

    without_width = make_run(id="bare", hidden="")
    guesses = guess_all({"file.csv": [make_run(vocab=""), without_width]}, picky)
    assert [run.vocab for run in seen] == [50_257]
    assert [guess.refusal for guess in guesses] == [
        "heads must divide 32, got 3",
        "the source does not state hidden",
    ]
    assert time_errors(guesses) == []
