"""Which configurations cannot be told apart: the published differences, their reach, and calibrations."""

from dataclasses import dataclass, replace
from typing import cast

import pytest

from evenflow.cluster.calibration import CalibrationRecord
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.expected_error import ErrorRange, expected_error
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Transformer
from evenflow.tune import error
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import difference_error, tied, uncertain_ns

MODEL = Transformer(hidden=1024, layers=4, heads=8, kv_heads=8, head_dim=128, ffn=4096, vocabulary=32000, gated=False)
TRAINING = Training(
    model=MODEL, degrees=Degrees(pipeline=2, data=4), microbatch=1, global_batch=32, sequence=1024, precision="bf16"
)
H100 = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
PREDICTION = predict(TRAINING, H100)


@dataclass(frozen=True)
class Row:
    """What `tied` reads of a candidate."""

    step_ns: float
    prediction: object = PREDICTION


def ranked(*shares: float) -> list[Candidate]:
    return [cast("Candidate", Row(step_ns=share * PREDICTION.step_ns)) for share in shares]


def test_the_range_is_of_the_narrowest_kind_with_two_sources(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    ranges = {"Hopper, dense": (-0.1, 0.1, 3, 1), "dense": (-0.2, 0.3, 9, 2), "all": (-0.3, 0.4, 12, 3)}
    monkeypatch.setattr(error, "_RANGES", ranges)
    found = difference_error(TRAINING, H100)
    assert (found.of, found.low, found.high, found.runs, found.sources) == ("dense", -0.2, 0.3, 9, 2)
    monkeypatch.setattr(error, "_RANGES", ranges | {"Hopper, dense": (-0.1, 0.1, 3, 2)})
    assert difference_error(TRAINING, H100).of == "Hopper, dense"
    # A pair with that ratio had its order wrong where the measured ratio is 10 % below the predicted one.
    assert uncertain_ns(PREDICTION) == pytest.approx(PREDICTION.step_ns * (1 / 0.9 - 1))


def test_differences_are_known_better_than_steps() -> None:
    one, both = expected_error(TRAINING, H100), difference_error(TRAINING, H100)
    assert both.low < 0 < both.high
    assert both.high - both.low < one.high - one.low


def test_those_within_reach_of_the_first_are_tied() -> None:
    reach = 1 + uncertain_ns(PREDICTION) / PREDICTION.step_ns
    rows = ranked(1.0, reach - 1e-6, reach + 1e-6, 2.0)
    assert tied(rows) == tuple(rows[:2])
    assert tied(ranked(1.0, 2.0)) == ()
    assert tied([]) == ()


def test_a_calibration_makes_ties_fewer_and_never_more() -> None:
    def found(step_error: float) -> ErrorRange:
        calibration = CalibrationRecord(runs=5, step_error=step_error)
        accelerator = replace(H100.accelerator, calibration=calibration)
        return difference_error(TRAINING, replace(H100, accelerator=accelerator))

    assert found(0.02).high == pytest.approx(1.6 * 0.02 * 2**0.5)
    assert found(0.02).low == -found(0.02).high
    published = difference_error(TRAINING, H100)
    assert (found(9.0).low, found(9.0).high) == (published.low, published.high)
