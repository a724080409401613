"""Where the prover aims: always below the best plan, straight at the end, and never beyond half of the gap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.solve.aim import CUTS_LOWEST, FIRST_MARGIN, FIRST_SECONDS, LEAST_MARGIN, NEARLY_DONE, Aim
from evenflow.solve.proof import CutEffort


def effort(seconds: float, share_left: float = 1.0) -> CutEffort:
    return CutEffort(seconds_for_all=seconds, share_left=share_left)


TARGET_NS = 10**9
margins = st.floats(0, 0.5)
gaps = st.floats(0, 1)


@given(st.integers(3, 10**15), margins, st.floats(0, 1))
def test_targets_are_below_the_best_plan_and_above_the_bound(makespan_ns: int, margin: float, share: float):
    bound_ns = min(int(share * makespan_ns), makespan_ns - 2)
    target = Aim(margin=margin).target_ns(makespan_ns, bound_ns=bound_ns)
    assert bound_ns < target < makespan_ns
    assert Aim().target_ns(makespan_ns, bound_ns=bound_ns) >= target
    aimed = Aim(margin=margin).target_ns(makespan_ns, bound_ns=-1)
    assert target == aimed or aimed <= bound_ns  # as far below as wanted, unless that is proven already


@given(margins, gaps, st.booleans())
def test_margins_stay_within_half_of_the_gap(margin: float, gap: float, refuted: bool):
    after = Aim(margin=margin).next(TARGET_NS, refuted=refuted, gap=gap, left_s=60)
    assert after.margin <= gap / 2
    assert not after.is_first
    if refuted:
        assert after.margin <= margin / 2
        assert after.margin == 0 or margin / 2 >= LEAST_MARGIN


@given(margins, gaps, st.booleans(), st.floats(0, 300), st.floats(0, 300))
def test_a_search_of_cuts_comes_up_from_below(margin: float, gap: float, refuted: bool, left_s: float, cuts_s: float):
    after = Aim(margin=margin).next(TARGET_NS, refuted=refuted, gap=gap, left_s=left_s, cuts=effort(cuts_s))
    assert after.margin <= gap
    if refuted:
        assert after.margin < margin or margin == 0
        return
    least = gap / 2 if margin else CUTS_LOWEST * gap
    if least >= LEAST_MARGIN and margin <= gap:
        assert after.margin >= max(margin, least)


def test_a_search_of_cuts_comes_up_as_far_as_its_time_allows():
    """Four times as long for one per cent more; by three tenths of the margin at least, and by half of it at most."""
    aim = Aim(margin=0.08)

    def after(left_s: float) -> float:
        return aim.next(TARGET_NS, refuted=True, gap=0.08, left_s=left_s, cuts=effort(10)).margin

    assert after(1) == pytest.approx(0.056)
    assert after(10 / 0.7 * 4**3) == pytest.approx(0.05)
    assert after(1e9) == pytest.approx(0.04)
    assert Aim(margin=0.003).next(TARGET_NS, refuted=True, gap=0.08, left_s=1e9, cuts=effort(10)).margin == 0


def test_a_search_of_cuts_that_is_nearly_done_goes_on():
    """The same target is kept for the rest of the time, whatever the best plan is by then, unless it meets it."""
    aim = Aim(margin=0.01)
    for cuts in (effort(90, NEARLY_DONE), effort(20, 0.3)):  # what is left of the second takes 20 * 3 / 7 seconds
        after = aim.next(TARGET_NS, refuted=False, gap=0.05, left_s=9, cuts=cuts)
        assert after.margin == 0.01
        assert after.target_ns(10 * TARGET_NS, bound_ns=0) == TARGET_NS
        assert after.target_ns(TARGET_NS, bound_ns=0) < TARGET_NS
        assert after.target_ns(10 * TARGET_NS, bound_ns=TARGET_NS) > TARGET_NS
        assert after.seconds(limit_s=60, left_s=9) == 9
        assert after.next(TARGET_NS, refuted=True, gap=0.01, left_s=9, cuts=cuts).kept_ns is None
    lower = aim.next(TARGET_NS, refuted=False, gap=0.05, left_s=9, cuts=effort(30, 0.3))
    assert lower.margin == pytest.approx(0.03)
    assert lower.kept_ns is None


def test_sights_are_lowered_after_a_failure_and_raised_after_successes():
    aim = Aim().next(TARGET_NS, refuted=False, gap=0.1, left_s=60)
    assert aim.margin == pytest.approx(0.025)  # a quarter of the gap
    assert Aim().next(TARGET_NS, refuted=False, gap=0.03, left_s=60).margin == FIRST_MARGIN
    assert aim.next(TARGET_NS, refuted=False, gap=0.2, left_s=60).margin == pytest.approx(0.05)
    margins = []
    while aim.margin:
        aim = aim.next(TARGET_NS, refuted=True, gap=0.1, left_s=60)
        margins.append(aim.margin)
    assert margins == pytest.approx([0.0125, 0.00625, 0.003125, 0])


def test_the_first_attempt_has_a_share_of_the_limit_and_later_ones_of_what_is_left():
    assert Aim().seconds(limit_s=10, left_s=9) == pytest.approx(3.5)
    assert Aim().seconds(limit_s=1000, left_s=900) == FIRST_SECONDS
    assert Aim().seconds(limit_s=10, left_s=1) == 1
    assert Aim(is_first=False).seconds(limit_s=1000, left_s=100) == pytest.approx(70)
    assert Aim().seconds_of_cuts(limit_s=10, left_s=9) == pytest.approx(0.3)
    assert Aim().seconds_of_cuts(limit_s=1000, left_s=900) == FIRST_SECONDS
    assert Aim(is_first=False).seconds_of_cuts(limit_s=1000, left_s=100) == pytest.approx(70)
