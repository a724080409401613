"""Halves from passes whose exchanges were noted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import Halves, PassHalves
from evenflow_torch.profile.exchange_times import NotedPass, measured_halves


def passed(*parts_ns: int, begin_ns: int = 1_000) -> NotedPass:
    """A pass whose parts are computation and exchange in turn, from computation on."""
    spans, now_ns = [], begin_ns
    for place, part_ns in enumerate(parts_ns):
        if place % 2:
            spans.append((now_ns, now_ns + part_ns))
        now_ns += part_ns
    return NotedPass(begin_ns=begin_ns, end_ns=now_ns, exchanges=tuple(spans))


def test_experts_are_computed_between_both_exchanges() -> None:
    forward, backward = passed(100, 20, 300, 30, 50), passed(40, 35, 600, 25, 200)
    assert forward.halves(is_forward=True) == PassHalves(dispatch_ns=20, mlp_ns=300, combine_ns=30)
    assert backward.halves(is_forward=False) == PassHalves(combine_ns=35, mlp_ns=600, dispatch_ns=25)


def test_numbers_of_tokens_go_ahead_of_them() -> None:
    assert passed(100, 5, 1, 20, 300, 30).halves(is_forward=True) == PassHalves(
        dispatch_ns=25, mlp_ns=300, combine_ns=30
    )


@pytest.mark.parametrize("parts_ns", [(100,), (100, 20, 300), (0, 20, 0, 30)])
def test_other_passes_have_no_halves(parts_ns: tuple[int, ...]) -> None:
    assert passed(*parts_ns).halves(is_forward=True) is None


def test_halves_are_shares_of_the_times_without_notes() -> None:
    found = measured_halves(
        [passed(100, 20, 60, 20), passed(100, 40, 20, 40)],
        [passed(100, 50, 200, 50)] * 2,
        [passed(100, 50, 150, 50), passed(100, 50, 300, 50)],
        forward_ns=1000,
        backward_ns=4000,
    )
    assert found == Halves(
        forward=PassHalves(dispatch_ns=150, mlp_ns=200, combine_ns=150),
        backward=PassHalves(dispatch_ns=500, mlp_ns=2000, combine_ns=500, mlp_weight_ns=500),
    )


def test_one_pass_that_exchanges_otherwise_leaves_them_unknown() -> None:
    whole, other = passed(10, 2, 30, 2), passed(10, 2, 30)
    assert measured_halves([whole, other], [whole] * 2, [], forward_ns=44, backward_ns=44) is None
    assert measured_halves([whole] * 2, [whole, other], [], forward_ns=44, backward_ns=44) is None


times_ns = st.integers(1, 10**9)
passes = st.lists(st.tuples(*[times_ns] * 5), min_size=1, max_size=7)


@given(passes, passes, passes, times_ns, times_ns)
def test_halves_are_parts_of_both_passes(
    forwards: list[tuple[int, ...]],
    backwards: list[tuple[int, ...]],
    without: list[tuple[int, ...]],
    forward_ns: int,
    backward_ns: int,
) -> None:
    found = measured_halves(
        *([passed(*parts_ns) for parts_ns in every] for every in (forwards, backwards, without)),
        forward_ns=forward_ns,
        backward_ns=backward_ns,
    )
    assert found is not None
    assert found.forward.total_ns <= forward_ns
    assert found.backward.total_ns <= backward_ns
