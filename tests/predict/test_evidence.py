"""What was fitted counts for trainings like the runs of a calibration, and for no others."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.measurement import Quantity
from evenflow.predict.evidence import counted, outside
from evenflow.predict.expected_error import CALIBRATED
from evenflow.predict.prediction import predict
from evenflow.predict.training import Software, Training
from evenflow.predict.transformer import Experts
from tests.predict.calibration.runs import H100, VARIED, measurements, training
from tests.thoroughness import examples

RUNS = [training(hidden=hidden, data=data) for hidden in (2048, 4096) for data in (2, 4)]
TRUTH = {"product_share": 0.45}
EXPERTS = Experts(count=8, active=2, ffn=1024)


@pytest.fixture(scope="module")
def ours() -> Accelerator:
    """An H100 that reaches less, calibrated on runs of width 2,048 and 4,096 on 8 and 16 devices."""
    return fit(measurements(RUNS, TRUTH), ["product_share"]).calibrated(H100)


def on(accelerator: Accelerator) -> Topology:
    return Topology(accelerator=accelerator, domain_devices=8)


def test_runs_themselves_get_all_that_was_fitted(ours) -> None:
    assert ours.calibration.before == {"product_share": 0.65}
    for run in RUNS:
        topology = counted(run, on(ours))
        assert topology.accelerator.reached == ours.reached
        assert outside(run, topology) == ()
        assert predict(run, topology).expected_error.of == CALIBRATED


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("precision", replace(RUNS[0], precision="fp8")),
        ("experts", replace(RUNS[0], model=replace(RUNS[0].model, experts=EXPERTS))),
        ("software", replace(RUNS[0], software=Software(fused_attention=False))),
        ("software", replace(RUNS[0], software=Software(captured_graphs=True))),
        ("software", replace(RUNS[0], software=Software(messages_in_turn=True))),
    ],
)
def test_trainings_of_another_kind_get_the_values_from_before(ours, name: str, other: Training) -> None:
    topology = counted(other, on(ours))
    assert topology.accelerator.reached.product_share == H100.reached.product_share
    assert topology.accelerator.calibration.counts == 0.0
    assert name in [one.name for one in outside(other, topology)]
    assert predict(other, topology).expected_error.of != CALIBRATED


def test_half_counts_at_twice_the_width_and_nothing_at_four_times(ours) -> None:
    for hidden, share in ((4096, 1.0), (8192, 0.5), (16_384, 0.0), (1024, 0.5), (512, 0.0)):
        other = training(hidden=hidden)
        topology = counted(other, on(ours))
        fitted, before = math.log(ours.reached.product_share), math.log(H100.reached.product_share)
        assert math.log(topology.accelerator.reached.product_share) == pytest.approx(
            before + share * (fitted - before), abs=1e-9
        )
        beyond = [one for one in outside(other, topology) if one.name == "hidden"]
        assert [(one.value, one.covered) for one in beyond] == ([] if share == 1 else [(hidden, (2048, 4096))])


def test_degrees_are_named_and_change_nothing(ours) -> None:
    other = training(hidden=4096, tensor=8, pipeline=1, data=1)
    topology = counted(other, on(ours))
    assert topology.accelerator.reached == ours.reached
    assert [one.name for one in outside(other, topology)] == ["tensor", "pipeline"]


@settings(max_examples=examples(20))
@given(st.sampled_from(VARIED), st.floats(0.3, 0.65))
def test_a_prediction_is_never_beyond_both_values(ours, run: Training, share: float) -> None:
    """What counts is between the value before and the fitted one, and to settle it twice changes nothing."""
    topology = counted(run, on(ours))
    low, high = sorted((ours.reached.product_share, H100.reached.product_share))
    assert low <= topology.accelerator.reached.product_share <= high
    assert counted(run, topology).accelerator.reached == topology.accelerator.reached


def test_a_calibration_on_one_framework_does_not_harm_another() -> None:
    """Runs of one framework are slower than predicted, those of the other are not."""
    slow = measurements(RUNS, {"product_share": 0.5})
    other = [replace(run, software=Software(fused_elementwise=False)) for run in RUNS]
    exact = measurements(other, {})
    ours = fit(slow, ["product_share"]).calibrated(H100)
    assert ours.reached.product_share == pytest.approx(0.5, rel=0.05)
    for run in exact:
        reached = counted(run.training, on(ours)).accelerator.reached
        assert run.predicted(Quantity.TIME, reached) == pytest.approx(run.step_ns)
        harmed = run.predicted(Quantity.TIME, ours.reached)
        assert harmed > 1.03 * run.step_ns


def test_a_second_calibration_keeps_the_values_from_before_the_first(ours) -> None:
    again = fit(measurements(RUNS, {"product_share": 0.6}, accelerator=ours), ["product_share"]).calibrated(ours)
    assert again.reached.product_share == pytest.approx(0.6, rel=0.02)
    assert again.calibration.before == {"product_share": 0.65}


def test_other_accelerators_and_old_files_stay_as_they_are(ours) -> None:
    fitted = fit(measurements(RUNS, TRUTH), ["product_share"])
    assert fitted.calibrated(replace(H100, name="h200")) == replace(H100, name="h200")
    old = replace(ours, calibration=replace(ours.calibration, before={}, covered=()))
    wide = training(hidden=16_384)
    assert counted(wide, on(old)).accelerator.reached == old.reached
    assert outside(wide, on(old)) == ()
