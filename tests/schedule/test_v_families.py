"""1F1B-V, ZB-H2, ZB-V, V-Half, V-Min and DualPipe-V: what their papers claim, by exact simulation."""

import inspect
import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from evenflow.model.stage_ranks import looped, v_shaped
from evenflow.schedule import FAMILIES, Op, Schedule, check_complete, make_schedule
from evenflow.schedule.families import chunk_count, family_placement
from evenflow.simulate import Timeline, build_graph, live_vectors, run

MOST_LIVE: dict[str, Callable[[int], int]] = {
    "1f1b-v": lambda p: 2 * (2 * p // 3 + 1),
    "zb-h2": lambda p: 2 * p - 1,
    "zbv": lambda p: 2 * p,
    "v-half": lambda p: 2 * (p // 2 + 1),
    "v-min": lambda p: 2 * ((p + 4) // 3),
    "dualpipe-v": lambda p: 2 * p + 1,
}
"""Chunk activations. ZB-H2 holds twice 1F1B's but one [arXiv:2401.10241, §2.2]; ZB-V p, V-Half (p + 2) // 2 and V-Min
(p + 4) // 3 whole ones [arXiv:2405.15362, the authors' table]; DualPipe-V one more than its stages, as DualPipe
[arXiv:2412.19437, §3.2.1]."""

MOST_IDLE: dict[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    "1f1b-v": (lambda p: p, lambda p: 5 * (p - 1)),
    "zb-h2": (lambda p: 2 * p - 1, lambda p: p - 1),
    "zbv": (lambda p: p, lambda p: p - 1),
    "v-half": (lambda p: p, lambda p: max(p - 1, 3 * p - 4)),
    "v-min": (lambda p: p, lambda p: max(p - 1, 4 * p - 5)),
    "dualpipe-v": (lambda p: 2 * p, lambda p: p - 1),
}
"""From so many microbatches on a rank idles at most so many units of a chunk: nothing but fill and drain; for V-Half
and V-Min what the table of families says, which is less than the paper's 3 p and 4 p units: p / 2 and 2 p / 3 times the
work of a microbatch. [arXiv:2405.15362, the authors' table]"""

SIZES = [(ranks, microbatches) for ranks in range(1, 9) for microbatches in range(1, 21)]


def made(family: str, ranks: int, microbatches: int) -> Schedule:
    chunks = FAMILIES[family].num_chunks
    return make_schedule(family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)


def timed(schedule: Schedule, forward: int = 1, gradient: int = 1, weight: int = 1) -> Timeline:
    times = np.array([forward, gradient + weight, gradient, weight], dtype=np.int64)
    return run(build_graph(schedule), np.tile(times, schedule.num_stages))


def idle(schedule: Schedule, *times: int) -> int:
    timeline = timed(schedule, *times)
    return timeline.makespan_ns - int(timeline.busy_ns[0])


def most_live(schedule: Schedule) -> int:
    return max(int(live_vectors(schedule, rank).sum(axis=1).max()) for rank in range(schedule.num_ranks))


@pytest.mark.parametrize("family", MOST_LIVE)
def test_orders_are_complete_end_and_keep_what_the_papers_say(family: str):
    fewest, most_idle = MOST_IDLE[family]
    for ranks, microbatches in SIZES:
        schedule = made(family, ranks, microbatches)
        check_complete(schedule)
        assert most_live(schedule) <= min(MOST_LIVE[family](ranks), schedule.num_chunks * microbatches)
        waits = idle(schedule)  # raises ScheduleError on a deadlock
        assert waits >= ranks - 1
        if microbatches >= fewest(ranks):
            assert waits <= most_idle(ranks), (ranks, microbatches)


@pytest.mark.parametrize("family", ["1f1b-v", "zbv", "v-half", "v-min"])
def test_building_blocks_fit_for_many_ranks(family: str):
    """A block that needed more than its memory would never end."""
    for ranks in range(9, 33, 3):
        schedule = made(family, ranks, ranks + 3)
        assert most_live(schedule) == MOST_LIVE[family](ranks)


@pytest.mark.parametrize("family", ["zb-h2", "zbv"])
def test_ranks_do_not_wait_between_their_own_actions(family: str):
    for ranks in range(1, 9):
        for microbatches in (2 * ranks - 1, 2 * ranks, 3 * ranks + 1):
            timeline = timed(made(family, ranks, microbatches))
            starts = timeline.schedule.rank_starts
            for rank in range(ranks):
                first, last = timeline.start_ns[starts[rank]], timeline.end_ns[starts[rank + 1] - 1]
                assert (first, last - first) == (rank, timeline.busy_ns[rank])


@pytest.mark.parametrize("times", [(2, 2, 1), (4, 5, 3), (3, 2, 2), (2, 2, 4)])
def test_unequal_times_do_not_add_up_in_the_steady_phase_of_v_half(times: tuple[int, int, int]):
    """Where w + 2 i >= 2 f and w + 2 f >= 2 i. [arXiv:2405.15362]"""
    forward, gradient, weight = times
    assert weight + 2 * gradient >= 2 * forward
    assert weight + 2 * forward >= 2 * gradient
    for ranks in (2, 4, 8):
        assert idle(made("v-half", ranks, 60), *times) == idle(made("v-half", ranks, 40), *times)


def test_bubbles_of_zb_h1_and_zb_h2_for_any_times():
    """The (f + i - w) and (f + i - 2 w) of the paper, and never less than fill and drain; for each rank but one."""
    for forward, gradient, weight in product((1, 2, 3, 5), repeat=3):
        h1 = max(forward, gradient, forward + gradient - weight)
        h2 = max(forward, gradient - forward, forward + gradient - 2 * weight)
        for ranks in range(1, 6):
            times = (forward, gradient, weight)
            assert idle(made("zb-h1", ranks, ranks), *times) == (ranks - 1) * h1
            for microbatches in (2 * ranks - 1, 3 * ranks):
                assert idle(made("zb-h1", ranks, microbatches), *times) == (ranks - 1) * h1
                assert idle(made("zb-h2", ranks, microbatches), *times) == (ranks - 1) * h2


@pytest.mark.parametrize(
    ("family", "ranks", "microbatches"), [("1f1b-v", 2, 3), ("zb-h2", 2, 4), ("zbv", 2, 3), ("dualpipe-v", 2, 4)]
)
def test_the_grid_of_the_docstring(family: str, ranks: int, microbatches: int):
    schedule = made(family, ranks, microbatches)
    grid = re.findall(r"^ *rank \d  (.*)$", inspect.getdoc(FAMILIES[family].make), re.MULTILINE)
    timeline = timed(schedule)
    width = 3 if schedule.num_chunks == 1 else 4
    for rank, line in enumerate(grid):
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        found = {match.start() // width: match.group() for match in re.finditer(r"\S+", line)}
        names = [str(action)[schedule.num_chunks == 1 :] for action in schedule.order(rank)]
        assert found == dict(zip(timeline.start_ns[span].tolist(), names, strict=True))
    assert len(grid) == ranks


def test_dualpipe_v_pairs_forwards_with_backwards():
    """In the steady phase every whole backward stands beside a forward of the other chunk."""
    schedule = made("dualpipe-v", 4, 20)
    for rank in range(4):
        order = schedule.order(rank)
        last = max(place for place, action in enumerate(order) if action.op == Op.F)
        backwards = [place for place, action in enumerate(order[: last + 1]) if action.op == Op.B]
        paired = [p for p in backwards if order[p - 1].op == Op.F and order[p - 1].stage != order[p].stage]
        assert len(paired) >= len(backwards) - 4


def test_placements_and_chunks():
    assert family_placement("zbv", num_ranks=3, num_chunks=2) == v_shaped(num_ranks=3)
    assert family_placement("interleaved", num_ranks=3, num_chunks=2) == looped(num_ranks=3, num_chunks=2)
    assert (chunk_count("v-half", None), chunk_count("1f1b", None), chunk_count("interleaved", None)) == (2, 1, 1)
    assert chunk_count("interleaved", 3) == 3
