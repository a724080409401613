"""Formulas against the simulator, in the even layout."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.schedule import FAMILIES, different_group_sizes, make_schedule
from evenflow.schedule.bubble_formulas import Bubble, BubblePlace, bubbles_by_formula, collect_bubbles
from evenflow.simulate import build_graph, run
from evenflow.simulate.even_layout import even_layout, idle_bubbles
from tests.strategies import FamilySizes

TIMES = ((1, 1), (1, 2), (5, 2))


def agree(size: FamilySizes, forward_ns: int, backward_ns: int, group_size: int | None = None) -> bool:
    """Whether there are formulas for these sizes; they must then hold on every rank."""
    given_sizes = {
        "num_ranks": size.num_ranks,
        "num_chunks": size.num_chunks,
        "num_microbatches": size.num_microbatches,
        "sequence_splits": size.sequence_splits,
        "group_size": group_size,
        "forward_ns": forward_ns,
        "backward_ns": backward_ns,
    }
    formulas = [bubbles_by_formula(size.family, rank=rank, **given_sizes) for rank in range(size.num_ranks)]
    if formulas[0] is None:
        assert formulas == [None] * size.num_ranks
        return False
    schedule = make_schedule(size.family, **asdict(size.sizes), group_size=group_size)
    halves = [backward_ns - backward_ns // 2, backward_ns // 2]
    durations = np.tile(np.array([forward_ns, backward_ns, *halves], dtype=np.int64), schedule.num_stages)
    timeline = even_layout(run(build_graph(schedule), durations))
    assert formulas == [idle_bubbles(timeline, rank) for rank in range(size.num_ranks)], size
    return True


def all_sizes(family: str, *, max_splits: int = 1) -> list[FamilySizes]:
    return [
        FamilySizes(
            family=family,
            num_ranks=ranks,
            num_chunks=chunks,
            num_microbatches=microbatches,
            sequence_splits=splits,
        )
        for ranks in range(1, 6)
        for chunks in ((FAMILIES[family].num_chunks,) if FAMILIES[family].num_chunks else (1, 2, 3))
        for microbatches in range(1, 13)
        for splits in range(1, max_splits + 1)
    ]


@pytest.mark.parametrize("family", ["naive", "f-then-b", "1f1b", "eager-1f1b"])
def test_all_small_sizes_with_a_formula_for_each(family: str):
    for size in all_sizes(family):
        for times in TIMES:
            assert agree(size, *times), size


COVERAGE = {
    "naive": 100, "f-then-b": 100, "1f1b": 100, "eager-1f1b": 100, "interleaved": 92, "interleaved-less-memory": 100,
    "interleaved-remainder-last": 59, "zb-h1": 85, "zb-h2": 70, "zbv": 70, "v-half": 0, "v-min": 0, "dualpipe-v": 66,
}  # fmt: skip
"""Percent of the sizes up to 8 ranks, 24 microbatches and 4 chunks whose bubbles are known by place, those of split
backwards for f = i = w. [docs/algorithms.md]
"""


@pytest.mark.parametrize("family", COVERAGE)
def test_every_formula_is_exact_and_so_many_sizes_have_one(family: str):
    chunks = FAMILIES[family].num_chunks
    known = []
    for ranks, count, microbatches in product(range(1, 9), (chunks,) if chunks else range(1, 5), range(1, 25)):
        size = FamilySizes(family=family, num_ranks=ranks, num_chunks=count, num_microbatches=microbatches)
        if count < FAMILIES[family].fewest_chunks:
            continue
        try:
            size.schedule()
        except InputError:
            assert family == "interleaved-remainder-last"
        else:
            known.append(agree(size, 2, 4) and (chunks is not None or agree(size, 7, 3)))
    assert 100 * sum(known) // len(known) == COVERAGE[family]


@pytest.mark.parametrize("family", ["interleaved", "interleaved-less-memory"])
def test_other_group_sizes(family: str):
    known = []
    for ranks, chunks, microbatches in product(range(1, 7), (2, 3), range(1, 16)):
        size = FamilySizes(family=family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
        for group in different_group_sizes(family, size):
            if group is not None:
                known += [agree(size, *times, group) for times in TIMES]
    assert sum(known) > 0.65 * len(known)


def test_all_small_sizes_of_interleaved():
    for family in ("interleaved", "interleaved-less-memory", "interleaved-remainder-last"):
        for size in all_sizes(family):
            assert agree(size, *TIMES[size.num_microbatches % 3]) or size.num_microbatches % size.num_ranks, size


@pytest.mark.parametrize(
    ("family", "fewest"),
    [
        ("zb-h1", lambda p: p),
        ("zb-h2", lambda p: 2 * p - 1),
        ("zbv", lambda p: 2 * p - 1),
        ("dualpipe-v", lambda p: 2 * p),
    ],
)
def test_all_small_sizes_of_split_backwards(family: str, fewest: Callable[[int], int]):
    """Where forward, input and weight gradient take equally long."""
    for size in all_sizes(family):
        assert agree(size, 3, 6) == (size.num_microbatches >= fewest(size.num_ranks))
        assert not agree(size, 3, 7)


@pytest.mark.parametrize("family", ["f-then-b", "1f1b", "eager-1f1b", "interleaved-less-memory", "interleaved"])
def test_split_sequences(family: str):
    known = [agree(size, 2, 3) for size in all_sizes(family, max_splits=3)]
    assert all(known) or (family == "interleaved" and sum(known) > 0.7 * len(known))


@given(
    st.sampled_from(sorted(FAMILIES)), st.integers(1, 10), st.integers(1, 4), st.integers(1, 40), st.integers(1, 3),
    st.integers(1, 9), st.integers(1, 9),
)  # fmt: skip
def test_any_sizes(family, ranks, chunks, microbatches, splits, forward_ns, backward_ns):
    size = FamilySizes(
        family=family,
        num_ranks=ranks,
        num_chunks=FAMILIES[family].num_chunks or chunks,
        num_microbatches=microbatches,
        sequence_splits=splits if FAMILIES[family].can_split else 1,
    )
    try:
        agree(size, forward_ns, backward_ns)
    except InputError:
        assert family == "interleaved-remainder-last"


@pytest.mark.parametrize("rank", range(4))
def test_document_004_for_equal_times(rank: int):
    """4 ranks: r t_f, (p - r - 1) t_f, (p - r - 1) t_b, r t_b; only for t_f = t_b, see the module."""
    bubbles = bubbles_by_formula(
        "1f1b", rank=rank, num_ranks=4, num_chunks=1, num_microbatches=5, forward_ns=7, backward_ns=7
    )
    assert bubbles == collect_bubbles(
        [
            (BubblePlace.START, 1, 7 * rank),
            (BubblePlace.FORWARDS, 1, 7 * (3 - rank)),
            (BubblePlace.BACKWARDS, 1, 7 * (3 - rank)),
            (BubblePlace.END, 1, 7 * rank),
        ]
    )


def test_unequal_times_cannot_wait_as_the_document_writes():
    """Rank 0 of 4 with t_b = 2 t_f: its first backward starts after 4 t_f + 3 t_b, of which it waits 3 t_b."""
    schedule = FamilySizes(family="1f1b", num_ranks=4, num_chunks=1, num_microbatches=5).schedule()
    timeline = run(build_graph(schedule), np.tile(np.array([1, 2, 0, 0]), 4))
    first_backward = [str(action) for action in schedule.order(0)].index("0B0")
    assert timeline.start_ns[first_backward] == 4 + 3 * 2


def test_equal_bubbles_are_counted():
    found = collect_bubbles(
        [(BubblePlace.END, 1, 3), (BubblePlace.TURN, 2, 5), (BubblePlace.TURN, 1, 5), (BubblePlace.START, 4, 0)]
    )
    assert found == (
        Bubble(place=BubblePlace.TURN, count=3, length_ns=5),
        Bubble(place=BubblePlace.END, count=1, length_ns=3),
    )


def test_an_unknown_family_has_no_formula():
    sizes_given = {"num_ranks": 2, "num_chunks": 1, "num_microbatches": 2, "forward_ns": 1, "backward_ns": 1}
    assert bubbles_by_formula("mine", rank=0, **sizes_given) is None
