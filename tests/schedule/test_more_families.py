"""Families beyond 1F1B, interleaved and F-then-B; what the table of families says, against the simulator."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError, ScheduleError
from evenflow.schedule import FAMILIES, Op, Schedule, family_name, format_schedule, make_schedule
from evenflow.schedule.families import ALIAS_NOTES, ALIASES
from evenflow.schedule.interleaved_remainder_last import never_finishes
from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.waiting_circle import waiting_circle
from evenflow.simulate import build_graph
from tests.oracle import equal_stages, live_peak, orders_of
from tests.strategies import FamilySizes, sizes


def idle_share(schedule: Schedule, forward_ns: int, backward_ns: int) -> Fraction:
    timeline = equal_stages(schedule, forward_ns, backward_ns)
    return 1 - Fraction(int(timeline.busy_ns.sum()), timeline.makespan_ns * schedule.num_ranks)


def remainder_last(ranks: int, chunks: int, microbatches: int) -> Schedule:
    """The family without its refusal."""
    groups = [ranks] * (microbatches // ranks) + [microbatches % ranks] * (microbatches % ranks > 0)
    forwards, backwards = chunk_orders(groups=groups, num_chunks=chunks, sequence_splits=1)
    warmups = [(chunks - 1) * groups[0] + 2 * (ranks - rank - 1) for rank in range(ranks)]
    return Schedule.from_table(
        name="interleaved-remainder-last",
        num_stages=ranks * chunks,
        num_microbatches=microbatches,
        codes=merge(forwards, backwards, warmups=warmups),
    )


def test_naive_by_hand():
    schedule = make_schedule("naive", num_ranks=2, num_chunks=2, num_microbatches=2)
    assert format_schedule(schedule) == "0F0,2F0,2B0,0B0,0F1,2F1,2B1,0B1\n1F0,3F0,3B0,1B0,1F1,3F1,3B1,1B1\n"


def test_eager_1f1b_by_hand():
    schedule = make_schedule("eager-1f1b", num_ranks=2, num_chunks=1, num_microbatches=4)
    assert format_schedule(schedule) == "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n"


def test_remainder_last_by_hand():
    """Groups of 2, 2 and 1; rank 0 warms up with 2 + 2 forwards."""
    schedule = make_schedule("interleaved-remainder-last", num_ranks=2, num_chunks=2, num_microbatches=5)
    assert format_schedule(schedule).splitlines()[0] == (
        "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,0F4,2B2,2F4,2B3,0B2,0B3,2B4,0B4"
    )


@pytest.mark.parametrize("rank", range(4))
def test_eager_1f1b_warms_up_twice_as_long(rank: int):
    """2 (ranks - rank) - 1 forwards before the first backward. [Zhuang et al., arXiv:2211.05322]"""
    order = make_schedule("eager-1f1b", num_ranks=4, num_chunks=1, num_microbatches=12).order(rank)
    assert [action.op for action in order].index(Op.B) == 2 * (4 - rank) - 1


@pytest.mark.parametrize(("microbatches", "ours", "last"), [(9, 14.3, (25.0, 27.0)), (5, 23.1, (35.5, 37.5))])
def test_the_remainder_comparison_of_document_004(microbatches: int, ours: float, last: tuple[float, float]):
    """4 ranks, 2 chunks; a backward as long as a forward, and twice as long."""
    for backward_ns, percent in zip((1, 2), last, strict=True):
        sizes_given = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": microbatches}
        assert round(100 * float(idle_share(make_schedule("interleaved", **sizes_given), 1, backward_ns)), 1) == ours
        share = idle_share(make_schedule("interleaved-remainder-last", **sizes_given), 1, backward_ns)
        assert round(100 * float(share), 1) == percent


def test_the_remainder_bubbles_of_document_004():
    """For 5 microbatches the talk counts 11 bubbles on each rank."""
    timeline = equal_stages(remainder_last(4, 2, 5), 1, 1)
    assert (timeline.makespan_ns - timeline.busy_ns).tolist() == [11] * 4


def test_what_is_refused_is_what_never_finishes():
    for ranks in range(1, 9):
        for chunks in range(1, 5):
            for microbatches in range(1, 3 * ranks):
                schedule = remainder_last(ranks, chunks, microbatches)
                try:
                    build_graph(schedule)
                    stuck = False
                except ScheduleError:
                    stuck = True
                given_sizes = {"num_ranks": ranks, "num_chunks": chunks, "num_microbatches": microbatches}
                assert never_finishes(**given_sizes) == stuck, given_sizes
                assert bool(waiting_circle(schedule)) == stuck, given_sizes


@given(st.integers(1, 7), st.integers(1, 3), st.integers(1, 25), st.integers(1, 9), st.integers(1, 9))
def test_merging_the_remainder_never_idles_more(
    ranks: int, chunks: int, microbatches: int, forward_ns: int, backward_ns: int
):
    given_sizes = {"num_ranks": ranks, "num_chunks": chunks, "num_microbatches": microbatches}
    if never_finishes(**given_sizes):
        with pytest.raises(InputError, match=r"wait for each other in a circle, .*use interleaved"):
            make_schedule("interleaved-remainder-last", **given_sizes)
        return
    theirs = idle_share(make_schedule("interleaved-remainder-last", **given_sizes), forward_ns, backward_ns)
    assert idle_share(make_schedule("interleaved", **given_sizes), forward_ns, backward_ns) <= theirs


@given(sizes(families=("naive",), max_splits=1), st.integers(1, 9), st.integers(1, 9))
def test_bubble_of_naive(size: FamilySizes, forward_ns: int, backward_ns: int):
    """(K - 1) / K. [pipeline study notes]"""
    assert idle_share(size.schedule(), forward_ns, backward_ns) == Fraction(size.num_ranks - 1, size.num_ranks)


PEAKS: dict[str, Callable[[int, int, int, int], int]] = {
    "naive": lambda p, v, m, r: v,
    "f-then-b": lambda p, v, m, r: v * m,
    "1f1b": lambda p, v, m, r: min(m, p - r),
    "eager-1f1b": lambda p, v, m, r: min(m, 2 * (p - r) - 1),
    "interleaved": lambda p, v, m, r: min(v * m, (v - 1) * (p + m % p) + 2 * (p - r) - 1),
    "interleaved-less-memory": lambda p, v, m, r: min(v * m, (v - 1) * (p + m % p) + p - r),
    "1f1b-v": lambda p, v, m, r: 2 * (2 * p // 3 + 1),
    "zb-h1": lambda p, v, m, r: min(m, p),
    "zb-h2": lambda p, v, m, r: min(m, 2 * p - 1),
    "zbv": lambda p, v, m, r: 2 * p,
    "v-half": lambda p, v, m, r: 2 * (p // 2 + 1),
    "v-min": lambda p, v, m, r: 2 * ((p + 4) // 3),
    "dualpipe-v": lambda p, v, m, r: 2 * p + 1,
    "1f1b-overlap": lambda p, v, m, r: min(m, 2 * (p - r)),
    "interleaved-overlap": lambda p, v, m, r: min(v * m, (v - 1) * (p + m % p) + 2 * (p - r)),
    "dualpipe-v-overlap": lambda p, v, m, r: 2 * p + 1,
    "zbv-overlap": lambda p, v, m, r: 2 * p,
    "interleaved-remainder-last": lambda p, v, m, r: min(v * m, (v - 1) * p + 2 * (p - r) - 1),
}
"""Live chunk activations of rank r for m >= p (2 p for dualpipe-v): `Family.memory`, times v."""


@pytest.mark.parametrize("family", FAMILIES)
def test_live_activations_are_as_the_table_says(family: str):
    for ranks in range(1, 6):
        fixed = FAMILIES[family].num_chunks
        for chunks in (fixed,) if fixed else (1, 2, 3):
            for microbatches in range(2 * ranks if family.startswith("dualpipe-v") else ranks, 3 * ranks + 2):
                given_sizes = {"num_ranks": ranks, "num_chunks": chunks, "num_microbatches": microbatches}
                if family == "interleaved-remainder-last" and never_finishes(**given_sizes):
                    continue
                orders = orders_of(make_schedule(family, **given_sizes))
                held = [live_peak(order, lambda stage: 1, lambda stage: 1) for order in orders]
                most = [PEAKS[family](ranks, chunks, microbatches, rank) for rank in range(ranks)]
                if family in ("1f1b-v", "v-min"):  # for some numbers of ranks, some keep less
                    held = [max(held)] * ranks
                assert held == most


def test_1f1b_saves_three_eighths_of_f_then_b_on_four_ranks_with_four_microbatches():
    """The 37.5 % of the [pipeline study notes]: 4 + 3 + 2 + 1 activations instead of 4 x 4. No other m >= p does it."""
    saved = {}
    for ranks in range(1, 17):
        for microbatches in range(ranks, 33):
            peaks = [
                sum(
                    live_peak(order, lambda stage: 1)
                    for order in orders_of(
                        make_schedule(name, num_ranks=ranks, num_chunks=1, num_microbatches=microbatches)
                    )
                )
                for name in ("1f1b", "f-then-b")
            ]
            saved[ranks, microbatches] = 1 - Fraction(*peaks)
    assert [case for case, share in saved.items() if share == Fraction(3, 8)] == [(4, 4)]


def test_aliases_name_families():
    assert ALIASES.keys() == ALIAS_NOTES.keys()
    for alias, family in ALIASES.items():
        assert family_name(alias.upper()) == family
        assert alias not in FAMILIES


def test_breadth_first_passes_one_chunk_after_the_other():
    """Looped breadth-first. [arXiv:2211.05953]"""
    schedule = make_schedule("breadth-first", num_ranks=1, num_chunks=2, num_microbatches=2)
    assert format_schedule(schedule) == "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1\n"


@pytest.mark.parametrize(
    ("family", "chunks", "splits", "message"),
    [
        ("eager-1f1b", 2, 1, "must be 1 per rank for eager-1f1b, .*take one chunk, or interleaved"),
        ("zbv", 1, 1, "must be 2 per rank for zbv, .*take 2 chunks, or interleaved"),
        ("v-min", 2, 2, "must be 1 for v-min, which does not split sequences"),
        (
            "interleaved-remainder-last",
            2,
            2,
            "must be 1 for interleaved-remainder-last, which does not split",
        ),
    ],
)
def test_sizes_that_a_family_does_not_have(family: str, chunks: int, splits: int, message: str):
    with pytest.raises(InputError, match=message):
        make_schedule(family, num_ranks=2, num_chunks=chunks, num_microbatches=4, sequence_splits=splits)
