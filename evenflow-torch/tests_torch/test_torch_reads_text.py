"""Against torch.distributed.pipelining itself: its reader and validator, and the orders of its own classes."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evenflow.model.stage_ranks import v_shaped
from evenflow.profiles.order_file import parse_order_file
from evenflow.schedule import FAMILIES, Schedule, format_schedule, make_schedule, parse_schedule
from evenflow.simulate import build_graph, run
from tests.strategies import ANY_SIZE, FamilySizes

torch_schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

TORCH_CLASSES = {"zbv": "ScheduleZBVZeroBubble", "dualpipe-v": "ScheduleDualPipeV"}


def some_sizes(family: str) -> Iterator[FamilySizes]:
    fixed, can_split = FAMILIES[family].num_chunks, FAMILIES[family].can_split
    for ranks, chunks, microbatches, splits in (
        (1, 1, 1, 1), (1, 2, 3, 1), (2, 1, 1, 2), (2, 3, 5, 1), (3, 2, 2, 1), (4, 1, 8, 3), (4, 2, 9, 1), (5, 2, 12, 1)
    ):  # fmt: skip
        yield FamilySizes(
            family=family,
            num_ranks=ranks,
            num_chunks=fixed or chunks,
            num_microbatches=microbatches,
            sequence_splits=splits if can_split else 1,
        )


def runtime(schedule: Schedule) -> Any:
    """Torch's runtime, with as much of a stage as reading needs."""
    stage = SimpleNamespace(num_stages=schedule.num_stages, group_size=schedule.num_ranks, group_rank=0)
    return torch_schedules._PipelineScheduleRuntime([stage], schedule.num_units)


@pytest.mark.parametrize("family", ANY_SIZE)
def test_every_family_goes_through_torch_and_comes_back(family: str, tmp_path: Path):
    for size in some_sizes(family):
        schedule = size.schedule()
        ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
        ours.write_text(format_schedule(schedule), encoding="utf-8")
        engine = runtime(schedule)
        engine._load_csv(str(ours))  # reads, validates, and adds all communication, which fails for a deadlock
        assert engine.stage_index_to_group_rank == dict(enumerate(schedule.stage_ranks))
        engine._dump_csv(str(theirs), format="compute_only")
        read = parse_schedule(
            theirs.read_text(encoding="utf-8"), name=schedule.name, sequence_splits=size.sequence_splits
        )
        assert read == schedule


def torch_order(family: str, ranks: int, microbatches: int) -> Schedule:
    """What torch's class of the family runs, from its text form."""
    schedule_class = getattr(torch_schedules, TORCH_CLASSES[family])
    sizes = SimpleNamespace(pp_group_size=ranks, num_stages=2 * ranks, _n_microbatches=microbatches)
    rows = [schedule_class._calculate_single_rank_operations(sizes, rank) for rank in range(ranks)]
    text = "".join(",".join("" if action is None else str(action) for action in row) + "\n" for row in rows)
    return parse_order_file(text, name=family, place="torch")


def makespan(schedule: Schedule, forward: int, gradient: int, weight: int) -> int:
    times = np.array([forward, gradient + weight, gradient, weight], dtype=np.int64)
    return run(build_graph(schedule), np.tile(times, schedule.num_stages)).makespan_ns


@pytest.mark.parametrize("family", TORCH_CLASSES)
def test_no_order_of_torch_is_shorter(family: str):
    """For equal times and all microbatches that its classes take; ZB-V also where weight gradients are short."""
    for ranks in range(1, 7):
        for microbatches in range(2 * ranks if family == "dualpipe-v" else 1, 4 * ranks + 2):
            theirs = torch_order(family, ranks, microbatches).in_turn()
            assert theirs.stage_ranks == v_shaped(num_ranks=ranks)
            ours = make_schedule(family, num_ranks=ranks, num_chunks=2, num_microbatches=microbatches)
            for times in ((1, 1, 1), (2, 2, 1)):
                assert makespan(ours, *times) <= makespan(theirs, *times), (ranks, microbatches, times)


def test_dualpipe_v_is_that_of_torch():
    for ranks in range(1, 7):
        for microbatches in range(2 * ranks, 3 * ranks + 3):
            theirs = torch_order("dualpipe-v", ranks, microbatches)
            for family, expected in (("dualpipe-v", theirs.in_turn()), ("dualpipe-v-overlap", theirs)):
                ours = make_schedule(family, num_ranks=ranks, num_chunks=2, num_microbatches=microbatches)
                assert ours.same_order(expected)
                assert ours.num_microbatches == expected.num_microbatches
