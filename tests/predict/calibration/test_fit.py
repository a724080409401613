"""A fit finds what made the steps, and refuses what they do not tell."""

import random
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.fitted import FittedReach
from tests.predict.calibration.runs import H100, VARIED, measurements, training
from tests.thoroughness import examples

NAMES = ("product_share", "operator_ns", "network_share")
TRUTH = {"product_share": 0.5, "operator_ns": 25_000.0, "network_share": 0.25}


def values(fitted: FittedReach) -> dict[str, float]:
    return {one.name: one.after for one in fitted.estimates}


@settings(max_examples=examples(10))
@given(st.integers(0, 1000))
def test_what_made_noisy_steps_is_found_within_its_errors(seed) -> None:
    found = fit(measurements(VARIED, TRUTH, noise=0.02, seed=seed), NAMES).time
    assert {one.name for one in found.estimates} == set(NAMES)
    for one in found.estimates:
        assert one.standard_error is not None
        assert abs(one.after - TRUTH[one.name]) < 4 * one.standard_error
        assert one.standard_error < 0.1 * one.after


def test_steps_without_noise_are_explained() -> None:
    found = fit(measurements(VARIED, TRUTH), NAMES).time
    assert found.error_before is not None
    assert found.error_after is not None
    assert found.error_before > 0.15
    assert found.error_after < 0.01
    assert values(FittedReach(time=found, memory=found))["product_share"] == pytest.approx(0.5, rel=0.02)


def test_nothing_changes_where_predictions_were_right() -> None:
    found = fit(measurements(VARIED, {}), NAMES).time
    assert all(one.after == pytest.approx(one.before, rel=1e-6) for one in found.estimates)
    assert found.error_after == pytest.approx(0.0, abs=1e-9)


def test_the_order_of_runs_changes_nothing() -> None:
    runs = measurements(VARIED, TRUTH, noise=0.03, seed=5)
    shuffled = random.Random(1).sample(runs, len(runs))
    one, other = fit(runs, NAMES).time, fit(shuffled, NAMES).time
    assert [each.name for each in one.estimates] == [each.name for each in other.estimates]
    for mine, theirs in zip(one.estimates, other.estimates, strict=True):
        assert mine.after == pytest.approx(theirs.after, rel=1e-6)
        assert mine.standard_error == pytest.approx(theirs.standard_error, rel=1e-6)
    assert one.error_expected == pytest.approx(other.error_expected, rel=1e-6)


def test_a_data_sheet_with_twice_the_rate_is_reached_by_half() -> None:
    """Nothing but the product of peak and share is in the predictions."""
    runs = measurements(VARIED, TRUTH, noise=0.02)
    faster = replace(
        H100,
        flops_per_s=2 * H100.flops_per_s,
        flops_per_s_of={dtype: 2 * rate for dtype, rate in H100.flops_per_s_of.items()},
        reached=H100.reached.changed({"product_share": H100.reached.product_share / 2}),
    )
    other = [replace(run, topology=replace(run.topology, accelerator=faster)) for run in runs]
    one, half = values(fit(runs, NAMES)), values(fit(other, NAMES))
    assert half["product_share"] == pytest.approx(one["product_share"] / 2, rel=1e-3)
    assert half["operator_ns"] == pytest.approx(one["operator_ns"], rel=1e-3)


def test_a_wrong_run_hardly_matters_and_is_named() -> None:
    runs = measurements(VARIED, TRUTH, noise=0.01)
    clean = values(fit(runs, NAMES))
    assert runs[7].step_ns is not None
    runs[7] = replace(runs[7], step_ns=10 * runs[7].step_ns)
    found = fit(runs, NAMES)
    assert found.time.worst is not None
    assert found.time.worst.name == "run 7"
    assert all(value == pytest.approx(clean[name], rel=0.1) for name, value in values(found).items())


def test_a_network_that_no_run_crosses_is_not_fitted() -> None:
    found = fit(measurements(VARIED, TRUTH, domain=1024), NAMES).time
    assert [(one.name, one.value, one.reason) for one in found.not_fitted] == [
        ("network_share", H100.reached.network_share, "no run waits for transfers between nodes")
    ]


def test_runs_of_one_shape_determine_one_parameter() -> None:
    names = ("product_share", "link_share", "memory_share")
    found = fit(measurements([training(hidden=8192, tensor=8)] * 8, TRUTH, noise=0.02), names).time
    assert [one.name for one in found.estimates] == ["product_share"]
    assert {one.reason for one in found.not_fitted} == {
        "all runs have the same shape, which determines only product_share"
    }


def test_one_run_determines_one_parameter_and_few_fewer_than_half() -> None:
    (one,) = fit(measurements([training(hidden=12_288)], TRUTH)).time.estimates
    assert one.name == "product_share"
    assert len(fit(measurements(VARIED[-4:], TRUTH)).time.estimates) <= 2


def test_runs_that_are_left_out_are_predicted_about_as_well_as_the_noise_allows() -> None:
    found = fit(measurements(VARIED, TRUTH, noise=0.03, seed=2), NAMES).time
    assert found.error_expected is not None
    assert found.error_after is not None
    assert found.error_after < found.error_expected < 0.06


def test_what_one_source_says_and_another_contradicts_is_not_fitted() -> None:
    """Whole sources are left out in turn: a tenth of each would leave the fit as it is."""
    slow, exact = measurements(VARIED, {"product_share": 0.5}), measurements(VARIED, {})
    both = [*(replace(run, source="slow") for run in slow), *(replace(run, source="exact") for run in exact)]
    assert fit(both, ["product_share"]).time.estimates == ()
    agreeing = [replace(run, source=name) for name in ("one", "other") for run in slow]
    assert [one.name for one in fit(agreeing, ["product_share"]).time.estimates] == ["product_share"]


def test_other_accelerators_are_changed_by_the_same_factor_up_to_what_is_possible() -> None:
    fitted = fit(measurements(VARIED, TRUTH | {"network_share": 0.8}), NAMES)
    other = H100.reached.changed({"product_share": 0.9, "network_share": 0.9})
    changed = fitted.applied(other)
    factor = values(fitted)["product_share"] / H100.reached.product_share
    assert changed.product_share == pytest.approx(0.9 * factor)
    assert changed.network_share == 1.0
    assert fitted.applied(H100.reached).standard_errors == {
        one.name: pytest.approx(one.standard_error) for one in fitted.estimates
    }


def test_an_interruption_leaves_the_best_values_so_far() -> None:
    heard = []

    def interrupt(progress) -> None:
        heard.append(progress)
        signal.raise_signal(signal.SIGINT)

    found = fit(measurements(VARIED, TRUTH), NAMES, progress=interrupt)
    assert len(heard) == 1
    assert not found.is_complete
    assert found.time.error_before is not None
    assert found.time.error_after is not None
    assert found.time.error_after < found.time.error_before
    assert found.time.error_expected is None


def test_memory_without_steps_says_nothing_of_time() -> None:
    run = replace(measurements([training()], {})[0], step_ns=None, memory_bytes=2.0**34)
    found = fit([run])
    assert {one.reason for one in found.time.not_fitted} == {"no run has a measured step"}
    assert found.memory.error_before is not None
    assert found.time.error_before is None


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="measured runs must be at least one"):
        fit([])


@settings(max_examples=examples(4))
@given(
    st.integers(0, 1000), st.sampled_from([0.02, 0.1, 0.3]), st.sampled_from([1.0, 0.97, 0.8, 0.6]), st.integers(2, 12)
)
def test_what_is_fitted_predicts_runs_that_were_left_out_better(seed, noise, share, count) -> None:
    """Else the values stay as they were: they are from many more runs."""
    truth = {"product_share": share * H100.reached.product_share}
    chosen = random.Random(seed).sample(VARIED, count)
    found = fit(measurements(chosen, truth, noise=noise, seed=seed), NAMES).time
    assert found.error_before is not None
    assert found.error_expected is not None
    if found.estimates:
        assert found.error_expected <= 0.9 * found.error_before + 1e-12
        gains = [abs(run.error_before) - abs(run.expected / run.measured - 1) for run in found.residuals]
        assert np.mean(gains) >= 2 * np.std(gains, ddof=1) / len(gains) ** 0.5 - 1e-12
    else:
        assert found.error_after == pytest.approx(found.error_before)
