"""How sure a training fits: published readings over predictions, and what a confidence leaves of a device."""

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.reached import Reached
from evenflow.predict import memory_error
from evenflow.predict.memory import Held, RankMemory, device_bytes_for, fit_probability, usable_bytes
from evenflow.predict.memory_error import margin, probability_within

CONFIDENCES = st.floats(0.5, 0.999999)
REACHED = st.builds(
    lambda share, driver: Reached(reserve_share=share, driver_bytes=float(driver)),
    st.floats(0, 1),
    st.integers(0, 2**33),
)


def test_shares_and_ratios_rise() -> None:
    shares, ratios = zip(*memory_error._QUANTILES, strict=True)
    assert list(shares) == sorted(set(shares))
    assert list(ratios) == sorted(set(ratios))


@pytest.mark.parametrize("number", range(len(memory_error._QUANTILES)))
def test_a_written_share_of_readings_is_below_its_ratio(number: int) -> None:
    share, ratio = memory_error._QUANTILES[number]
    assert probability_within(ratio) == pytest.approx(share)
    if share >= 0.5:
        assert margin(share) == pytest.approx(ratio)


@given(CONFIDENCES)
def test_a_margin_is_the_ratio_of_that_probability(confidence: float) -> None:
    assert probability_within(margin(confidence)) == pytest.approx(confidence, abs=1e-9)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=2).map(sorted))
def test_more_room_is_never_less_sure(ratios: list[float]) -> None:
    less, more = map(probability_within, ratios)
    assert 0 <= less <= more <= 1


def test_between_two_shares_normal_deviates_are_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_error, "_QUANTILES", ((0.1, exp(-1.2815515655446004)), (0.9, exp(1.2815515655446004))))
    memory_error._deviates.cache_clear()
    try:
        assert probability_within(1.0) == pytest.approx(0.5)
        assert probability_within(exp(2)) == pytest.approx(0.9772498680518208)
        assert log(margin(0.9772498680518208)) == pytest.approx(2)
    finally:
        memory_error._deviates.cache_clear()


@pytest.mark.parametrize("ratio", [0.0, -1.0])
def test_without_room_nothing_fits(ratio: float) -> None:
    assert probability_within(ratio) == 0


def test_no_confidence_takes_predictions_as_they_are() -> None:
    assert margin(None) == 1


@given(st.integers(1, 2**40), REACHED, st.none() | CONFIDENCES)
def test_the_least_device_for_what_is_held(held: int, reached: Reached, confidence: float | None) -> None:
    device = device_bytes_for(held, reached, confidence=confidence)
    assert usable_bytes(device, reached, confidence=confidence) >= held
    slack = 2 + 1e-6 * held
    assert held < 2 or usable_bytes(device - round(3 + 1e-6 * device), reached, confidence=confidence) <= held + slack


def test_a_device_smaller_than_the_driver_has_a_byte() -> None:
    assert usable_bytes(2**30, Reached(driver_bytes=3.0 * 2**30)) == 1


@given(CONFIDENCES, st.integers(2**30, 2**37))
def test_what_is_usable_with_a_confidence_fits_with_it(confidence: float, limit: int) -> None:
    reached = Reached(reserve_share=0.05, driver_bytes=2.0**28)
    held = usable_bytes(limit, reached, confidence=confidence)
    parts = {Held.MLP: held, Held.RESERVE: round(0.05 * held), Held.DRIVER: 2**28}
    assert fit_probability([RankMemory(parts=parts)], limit) == pytest.approx(confidence, abs=1e-4)


def test_the_fullest_rank_decides_and_the_driver_does_not_scale() -> None:
    small = RankMemory(parts={Held.MLP: 10 * 2**30, Held.DRIVER: 2**30})
    full = RankMemory(parts={Held.MLP: 20 * 2**30, Held.DRIVER: 2**30})
    assert fit_probability([small, full], 21 * 2**30) == probability_within(1.0)
    assert fit_probability([small], 21 * 2**30) == probability_within(2.0)
