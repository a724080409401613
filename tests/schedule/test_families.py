from collections import Counter

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.schedule import FAMILIES, Action, Op, check_complete, default_family, family_name, make_schedule
from evenflow.simulate import build_graph, compiled
from tests.oracle import live_peak, orders_of
from tests.strategies import ANY_SIZE, ONE_CHUNK, FamilySizes, sizes

MOST_RANKS, MOST_CHUNKS, MOST_MICROBATCHES, MOST_SPLITS = 12, 5, 40, 4


def chunks_of(family: str) -> list[int]:
    fixed = FAMILIES[family].num_chunks
    return [fixed] if fixed else list(range(1, MOST_CHUNKS + 1))


def some_of_all_sizes(family: str) -> list[FamilySizes]:
    """Every 7th of all sizes; 7 shares no factor with the counts, so every value meets every other."""
    every = [
        FamilySizes(
            family=family,
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=num_microbatches,
            sequence_splits=sequence_splits,
        )
        for num_ranks in range(1, MOST_RANKS + 1)
        for num_chunks in chunks_of(family)
        for num_microbatches in range(1, MOST_MICROBATCHES + 1)
        for sequence_splits in range(1, MOST_SPLITS + 1 if FAMILIES[family].can_split else 2)
    ]
    return every[::7]


@pytest.mark.parametrize("family", ANY_SIZE)
def test_every_order_is_complete_causal_and_ends(family: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "COMPILE_FROM_ACTIONS", 0)
    for size in some_of_all_sizes(family):
        schedule = size.schedule()
        check_complete(schedule)
        build_graph(schedule)  # raises ScheduleError on a deadlock


@given(sizes(max_ranks=6, max_microbatches=14))
def test_every_rank_runs_its_stages_once_in_causal_order(size: FamilySizes):
    """The same by other means than the validator's."""
    schedule = size.schedule()
    splits = size.sequence_splits
    for rank, order in enumerate(orders_of(schedule)):
        stages = schedule.stage_table[:, rank].tolist()
        split = {(action.stage, action.microbatch) for action in order if action.op == Op.W}
        assert Counter(order) == Counter(
            Action(stage, op, unit)
            for stage in stages
            for unit in range(size.num_units)
            for op in ((Op.F, Op.I, Op.W) if (stage, unit) in split else (Op.F, Op.B))
        )
        for stage in stages:
            mine = [action for action in order if action.stage == stage]
            forwards = [action.microbatch for action in mine if action.op == Op.F]
            backwards = [action.microbatch for action in mine if action.op in (Op.B, Op.I)]
            weights = [action.microbatch for action in mine if action.op == Op.W]
            assert forwards == sorted(forwards)
            parts = [backwards[first : first + splits] for first in range(0, size.num_units, splits)]
            assert [part[::-1] for part in parts] == [
                forwards[first : first + splits] for first in range(0, size.num_units, splits)
            ]
            assert weights == [unit for unit in backwards if (stage, unit) in split]


@given(sizes(families=("1f1b",), max_microbatches=14, max_splits=4))
def test_1f1b_keeps_few_activations(size: FamilySizes):
    """At most ranks - rank, and splits - 1 more for a split sequence. [Seq1F1B, §3]"""
    for rank, order in enumerate(orders_of(size.schedule())):
        most = size.num_ranks - rank + size.sequence_splits - 1
        assert live_peak(order, lambda stage: 1) == min(most, size.num_units)


@given(sizes(families=("zb-h1",), max_microbatches=14, max_splits=4))
def test_zb_h1_keeps_no_more_than_the_first_rank_of_1f1b(size: FamilySizes):
    most = min(size.num_ranks + size.sequence_splits - 1, size.num_units)
    for order in orders_of(size.schedule()):
        assert live_peak(order, lambda stage: 1, lambda stage: 1) <= most


@given(sizes(families=("f-then-b",), max_microbatches=14))
def test_f_then_b_keeps_every_activation(size: FamilySizes):
    for order in orders_of(size.schedule()):
        assert live_peak(order, lambda stage: 1) == size.num_chunks * size.num_units


@given(sizes(max_ranks=8, max_microbatches=24))
def test_less_memory_never_keeps_more(size: FamilySizes):
    sizes_given = {
        "num_ranks": size.num_ranks,
        "num_chunks": size.num_chunks,
        "num_microbatches": size.num_microbatches,
        "sequence_splits": size.sequence_splits,
    }
    usual = make_schedule("interleaved", **sizes_given)
    less = make_schedule("interleaved-less-memory", **sizes_given)
    for rank in range(size.num_ranks):
        assert live_peak(less.order(rank), lambda stage: 1) <= live_peak(usual.order(rank), lambda stage: 1)
    if size.num_microbatches >= 2 * size.num_ranks > 2 and size.num_chunks > 1:
        assert live_peak(less.order(0), lambda stage: 1) < live_peak(usual.order(0), lambda stage: 1)


@given(sizes())
def test_one_chunk_interleaved_with_less_memory_is_1f1b(size: FamilySizes):
    sizes_given = {"num_ranks": size.num_ranks, "num_chunks": 1, "num_microbatches": size.num_microbatches}
    less = make_schedule("interleaved-less-memory", **sizes_given)
    assert orders_of(less) == orders_of(make_schedule("1f1b", **sizes_given))


def test_names():
    assert family_name("GPipe") == "f-then-b"
    assert family_name("1F1B") == "1f1b"
    assert default_family(num_chunks=1, less_memory=True) == "1f1b"
    assert default_family(num_chunks=2) == "interleaved"
    assert default_family(num_chunks=2, less_memory=True) == "interleaved-less-memory"
    with pytest.raises(
        InputError, match=r"one of naive, f-then-b, 1f1b, .*got 'interleave'.*did you mean interleaved\?"
    ):
        family_name("interleave")
    for family in ONE_CHUNK:
        with pytest.raises(InputError, match=f"chunks must be 1 per rank for {family}"):
            make_schedule(family, num_ranks=2, num_chunks=2, num_microbatches=2)


@pytest.mark.parametrize("wrong", ["num_ranks", "num_chunks", "num_microbatches", "sequence_splits"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_sizes_below_one_are_refused(family: str, wrong: str):
    chunks = FAMILIES[family].num_chunks or 1
    given_sizes = {"num_ranks": 2, "num_chunks": chunks, "num_microbatches": 2, "sequence_splits": 1, wrong: 0}
    with pytest.raises(InputError, match=r"an integer from 1 to|must be [12] per rank|does not split sequences"):
        make_schedule(family, **given_sizes)
