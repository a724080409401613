"""How much slower computation is beside exchanges of tokens: found from runs that hide these, and from no others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.reached import SLOWED
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.fitted import NotFitted, ParameterEstimate
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Experts
from tests.predict.calibration.runs import H100, measurements, training
from tests.thoroughness import examples

NAME = "pair_slowdown"


def mixture(*, hidden: int = 4096, expert: int = 16, overlaps: bool = False, schedule: str | None = None) -> Training:
    """A mixture without a pipeline, whose experts are on one or several nodes."""
    plain = training(hidden=hidden, tensor=1, pipeline=1)
    model = replace(plain.model, gated=True, experts=Experts(count=64, active=8, ffn=hidden // 2))
    software = replace(plain.software, overlaps_experts=overlaps, sends_tokens_once=True)
    return replace(
        plain, model=model, degrees=Degrees(data=expert, expert=expert), global_batch=4 * expert, software=software,
        schedule=schedule,
    )  # fmt: skip


SHAPES = tuple({"hidden": hidden, "expert": expert} for hidden in (2048, 7168) for expert in (16, 32))
ALONE = tuple(mixture(**shape) for shape in SHAPES)
BESIDE = tuple(mixture(**shape, overlaps=True) for shape in SHAPES)


def slowdown(runs: Sequence[Measurement]) -> ParameterEstimate | NotFitted:
    time = fit(runs, [NAME]).time
    (found,) = (*time.estimates, *time.not_fitted)
    assert found.name == NAME
    return found


@settings(max_examples=examples(2))
@given(st.floats(1.35, 2.5), st.integers(0, 100))
def test_what_made_the_steps_is_found_within_its_errors(truth: float, seed: int) -> None:
    found = slowdown(measurements((*ALONE, *BESIDE), {NAME: truth}, noise=0.005, seed=seed))
    assert isinstance(found, ParameterEstimate)
    assert found.standard_error is not None
    assert found.runs == len(BESIDE)
    assert abs(found.after - truth) < 4 * found.standard_error


def test_fewer_runs_leave_it_nearer_to_what_was_known() -> None:
    runs = [measurements((ALONE[place], BESIDE[place]), {NAME: 1.6}) for place in range(len(BESIDE))]
    one, two, every = (
        slowdown([run for pair in runs[:count] for run in pair]) for count in (1, 2, len(runs))
    )  # fmt: skip
    values = [found.after for found in (one, two, every) if isinstance(found, ParameterEstimate)]
    assert SLOWED < values[0] < values[1] < values[2] < 1.6


def test_what_a_prediction_has_wrong_in_both_runs_of_a_pair_does_not_count() -> None:
    runs = measurements((*ALONE, *BESIDE), {NAME: 1.5})
    longer = [replace(run, step_ns=1.3 * (run.step_ns or 0)) for run in runs]
    one, other = slowdown(runs), slowdown(longer)
    assert isinstance(one, ParameterEstimate)
    assert isinstance(other, ParameterEstimate)
    assert other.after == pytest.approx(one.after, rel=1e-3)


def test_the_value_before_stays_where_another_one_would_make_steps_worse() -> None:
    """Their twins are predicted far too long, and so are they: what they hide is not known that well."""
    runs = [replace(run, step_ns=0.7 * (run.step_ns or 0)) for run in measurements((*ALONE, *BESIDE), {NAME: 1.5})]
    found = slowdown(runs)
    assert isinstance(found, NotFitted)
    assert found.reason == "with it, the steps of these runs are predicted worse than before"


@settings(max_examples=examples(4))
@given(st.floats(1.05, 2.5), st.floats(0.6, 1.6), st.floats(0, 0.1), st.integers(0, 100))
def test_no_fit_predicts_the_runs_worse(truth: float, factor: float, noise: float, seed: int) -> None:
    made = measurements((*ALONE, *BESIDE), {NAME: truth}, noise=noise, seed=seed)
    time = fit([replace(run, step_ns=factor * (run.step_ns or 0)) for run in made], [NAME]).time
    assert time.error_after is not None
    assert time.error_before is not None
    assert time.error_after <= time.error_before + 1e-3


def test_pairs_of_a_schedule_are_beside_the_schedule_without_them() -> None:
    beside = [mixture(**shape, schedule="1f1b-overlap") for shape in SHAPES]
    found = slowdown(measurements((*ALONE, *beside), {NAME: 1.5}))
    assert isinstance(found, ParameterEstimate)
    assert found.after == pytest.approx(1.5, rel=0.1)


def test_runs_that_hide_nothing_say_nothing() -> None:
    found = slowdown(measurements((*ALONE, training()), {NAME: 2.0}))
    assert isinstance(found, NotFitted)
    assert (found.value, found.reason) == (SLOWED, "no run hides traffic between experts under computation")


def test_runs_that_were_predicted_as_measured_change_nothing() -> None:
    found = slowdown(measurements((*ALONE, *BESIDE), {}))
    assert found.value == SLOWED if isinstance(found, NotFitted) else found.after == pytest.approx(SLOWED, rel=1e-3)


def test_predictions_and_plans_take_the_calibrated_value() -> None:
    fitted = fit(measurements((*ALONE, *BESIDE), {NAME: 1.5}), [NAME])
    reached = fitted.calibrated(H100).reached
    assert reached.pair_slowdown == fitted.estimates[0].after > SLOWED
    for run, before in zip(measurements(BESIDE, {}), fitted.time.residuals[len(ALONE) :], strict=True):
        prediction = run.prediction(reached)
        assert prediction.simulation.network.pair_slowdown == reached.pair_slowdown
        assert run.of(prediction, Quantity.TIME) == pytest.approx(before.after)
        assert before.after > before.before
