import pytest

from evenflow.predict import prediction as prediction_module
from evenflow.predict.expected_error import ErrorRange
from evenflow.tune.ties import tied, uncertain_ns
from tests.tune.rankings import ranking


@pytest.mark.parametrize(("low", "high", "count"), [(-0.05, 0.15, 2), (-0.001, 0.001, 0), (-0.5, 1.5, 3)])
def test_the_surer_predictions_are_the_fewer_are_tied(monkeypatch, low, high, count):
    error = ErrorRange(low=low, high=high, runs=1, sources=1, of="all")
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: error)
    ranked = ranking().ranked
    assert tied(ranked) == ranked[:count]


def test_what_can_be_told_apart_is_further_than_the_error():
    ranked = ranking().ranked
    first = ranked[0].prediction
    same = tied(ranked)
    assert all(one.step_ns - ranked[0].step_ns <= uncertain_ns(first) for one in same)
    assert tied(()) == ()
    assert tied(ranked[:1]) == ()
