"""Insertion: what it makes is an order that the simulator runs in the same time, within memory, and never later."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import Communication
from evenflow.model.stage_ranks import looped, v_shaped
from evenflow.schedule import FAMILIES, NUM_OPS, Op, Schedule, check_complete
from evenflow.schedule.insertion import STUCK, insert
from evenflow.schedule.pattern import Pattern, unrolled
from evenflow.simulate import build_graph, live_vectors, run

PATTERNS = [name for name, family in FAMILIES.items() if family.patterns]
PLENTY = 1000


def pattern_of(name: str, ranks: int) -> tuple[Pattern, tuple[int, ...]]:
    family = FAMILIES[name]
    placement = v_shaped(num_ranks=ranks) if family.is_v_shaped else looped(num_ranks=ranks, num_chunks=1)
    return family.patterns[-1](num_ranks=ranks), placement


def inserted(
    name: str, ranks: int, microbatches: int, times: np.ndarray, message: int, room: int, *, split: bool
) -> tuple[Schedule, int]:
    pattern, placement = pattern_of(name, ranks)
    stages = len(placement)
    splits = np.full(stages, split)
    rows = unrolled(pattern, stage_ranks=placement, num_units=microbatches, splits=splits)
    per_rank = rows.shape[1] // ranks
    codes = np.empty(rows.shape, dtype=np.int32)
    starts = np.arange(ranks + 1) * per_rank
    ones = np.ones(stages, dtype=np.int64)
    rooms, units = np.full(ranks, room), np.arange(microbatches)
    makespan = insert(
        rows, np.array(placement), times, np.full_like(times, message), ones, ones, rooms, units, starts, codes
    )
    order = Schedule.from_orders(
        name="inserted",
        num_stages=stages,
        num_microbatches=microbatches,
        stage_ranks=placement,
        orders=np.split(codes, starts[1:-1], axis=1),
    )
    return order, makespan


@settings(deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(1, 5), st.integers(1, 9), st.booleans(), st.integers(0, 7), st.randoms())
def test_orders_are_complete_and_take_what_is_said(name, ranks, microbatches, split, message, random):
    stages = ranks * (FAMILIES[name].num_chunks or 1)
    times = np.array([random.choice((0, 0, *range(1, 10))) for _ in range(NUM_OPS * stages)])  # empty cells take none
    order, makespan = inserted(name, ranks, microbatches, times, message, PLENTY, split=split)
    check_complete(order)
    timeline = run(build_graph(order), times, Communication(latency_ns=message))
    assert timeline.makespan_ns == makespan


@pytest.mark.parametrize("name", PATTERNS)
def test_a_rank_never_holds_more_than_its_room(name: str):
    for ranks in range(2, 6):
        stuck = 0
        for room in range(1, 3 * ranks + 3):
            stages = ranks * (FAMILIES[name].num_chunks or 1)
            times = np.ones(NUM_OPS * stages, dtype=np.int64)
            order, makespan = inserted(name, ranks, 3 * ranks, times, 0, room, split=FAMILIES[name].num_chunks == 1)
            if makespan == STUCK:
                stuck += 1
                continue
            assert max(int(live_vectors(order, rank).sum(axis=1).max()) for rank in range(ranks)) <= room
        assert stuck  # no pattern keeps several ranks going with one activation
        assert makespan != STUCK


@pytest.mark.parametrize("name", PATTERNS)
def test_no_two_actions_of_a_pattern_fall_together(name: str):
    whole = name == "1f1b-v"
    for ranks in range(1, 20):
        pattern, placement = pattern_of(name, ranks)
        rows = unrolled(pattern, stage_ranks=placement, num_units=4, splits=np.full(len(placement), not whole))
        assert len({tuple(column) for column in rows.T.tolist()}) == rows.shape[1]
        for rank in range(ranks):
            taken: list[int] = []
            for stage in (stage for stage, own in enumerate(placement) if own == rank):
                taken.append(pattern.forwards[stage] % pattern.period)
                taken += [(pattern.gradients[stage] + more) % pattern.period for more in range(1 + whole)]
            assert len(set(taken)) == len(taken), (ranks, rank)


def test_weight_gradients_take_the_units_that_are_left():
    pattern = Pattern(forwards=(0,), gradients=(1,), period=3)
    rows = unrolled(pattern, stage_ranks=(0,), num_units=3, splits=np.ones(1, dtype=bool))
    assert rows[0].tolist() == [Op.F, Op.I, Op.W] * 3
    assert rows[2].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_gradients_of_a_split_sequence_wait_for_its_last_part():
    pattern = Pattern(forwards=(0,), gradients=(1,), period=2)
    rows = unrolled(pattern, stage_ranks=(0,), num_units=4, splits=np.zeros(1, dtype=bool), sequence_splits=2)
    assert rows[0].tolist() == [Op.F, Op.F, Op.B, Op.F, Op.B, Op.F, Op.B, Op.B]
