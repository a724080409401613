"""The interval that is printed: whose runs it follows from, and that it is around the step."""

from dataclasses import replace

import pytest

from evenflow.cluster.calibration import CalibrationRecord
from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.cluster.topology import Topology
from evenflow.predict import expected_error as module
from evenflow.predict.expected_error import ALL, CALIBRATED, expected_error, kinds_of
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Experts, Transformer

MODEL = Transformer(
    hidden=1024, layers=4, heads=8, kv_heads=8, head_dim=128, ffn=4096, vocabulary=32_000, gated=True, name="small"
)
TRAINING = Training(model=MODEL, degrees=Degrees(data=8), microbatch=1, global_batch=8, sequence=2048)


def on(name: str) -> Topology:
    return Topology(accelerator=ACCELERATORS[name], domain_devices=8)


def test_kinds_go_from_the_narrowest_to_all() -> None:
    assert kinds_of("Hopper", has_experts=True) == ("Hopper, experts", "experts", ALL)
    assert kinds_of("", has_experts=False) == (", dense", "dense", ALL)


def test_the_narrowest_kind_with_two_sources_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = {
        "Hopper, dense": (-0.1, 0.1, 50, 3),
        "Hopper, experts": (-0.5, 0.5, 5, 1),
        "dense": (-0.2, 0.2, 90, 4),
        ALL: (-0.3, 0.3, 100, 5),
    }
    monkeypatch.setattr(module, "_RANGES", ranges)
    experts = replace(TRAINING, model=replace(MODEL, experts=Experts(count=8, active=2, ffn=4096)))
    assert expected_error(TRAINING, on("h100")).of == "Hopper, dense"
    assert expected_error(TRAINING, on("mi300x")).of == "dense"  # no published run of its generation
    assert expected_error(experts, on("h100")).of == ALL  # one source of them is not enough
    assert expected_error(TRAINING, on("h100")).high == 0.1


def test_a_calibrated_accelerator_has_the_error_of_its_own_runs() -> None:
    calibration = CalibrationRecord(runs=7, step_error=0.01, expected_step_error=0.05)
    accelerator = replace(ACCELERATORS["h100"], calibration=calibration)
    error = expected_error(TRAINING, replace(on("h100"), accelerator=accelerator))
    assert (error.of, error.runs) == (CALIBRATED, 7)
    assert (error.low, error.high) == pytest.approx((-0.08, 0.08))
    nothing = replace(accelerator, calibration=CalibrationRecord(runs=7))
    assert expected_error(TRAINING, replace(on("h100"), accelerator=nothing)).of != CALIBRATED


@pytest.mark.parametrize("name", ["v100-32", "a100-80", "h100", "b200", "mi300x", "910b"])
def test_the_interval_is_around_the_step(name: str) -> None:
    prediction = predict(TRAINING, on(name))
    low, high = prediction.interval_ns
    assert 0 < low < prediction.step_ns < high
    assert prediction.expected_error.sources >= 2
