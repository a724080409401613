"""The predictor that is scored, with nothing known and after a fit."""

from benchmarks.published.accuracy import DATA
from benchmarks.published.guesses import HALF, guess_all, time_errors
from benchmarks.published.prediction import calibrated, predicted

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from tests.profiles.measured.rows import make_run

RUN = completed(make_run(mem_gib="30"))


def test_a_fit_to_a_run_predicts_it() -> None:
    before, measured = predicted(RUN), RUN.step_s
    after = calibrated(predicted, [RUN])(RUN)
    assert measured is not None
    assert abs(after.step_s - measured) < 0.2 * abs(before.step_s - measured)


def test_runs_that_cannot_be_predicted_are_left_out_of_a_fit() -> None:
    odd = completed(make_run(id="odd", hardware="abacus"))
    assert calibrated(predicted, [RUN, odd])(RUN) == calibrated(predicted, [RUN])(RUN)


def test_half_of_the_runs_on_one_node_predict_the_other_half() -> None:
    runs = read_runs(DATA / "bigscience_tr3m.csv")
    known = [
        error.relative for error in time_errors(guess_all({"f": runs}, predicted, calibrate=calibrated, points=HALF))
    ]
    unknown = [error.relative for error in time_errors(guess_all({"f": runs}, predicted))]
    assert len(known) == 5
    assert sum(map(abs, known)) / len(known) < sum(map(abs, unknown)) / len(unknown)
