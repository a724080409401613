import numpy as np
import pytest

from evenflow.draw.text_grid import MOST_CHARACTERS, text_grid
from evenflow.schedule import make_schedule
from evenflow.simulate import Timeline, build_graph, run


def timeline(family: str, *, ranks: int, chunks: int, microbatches: int, times: tuple[int, int]) -> Timeline:
    schedule = make_schedule(family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    return run(build_graph(schedule), np.tile(np.array([*times, 0, 0]), schedule.num_stages))


@pytest.mark.parametrize(
    ("family", "chunks", "times", "unit_ns", "grid"),
    [
        (
            "1f1b", 1, (10, 20), 10,
            "rank 0  F0 F1 .  .  B0--- .  B1---\n"
            "rank 1  .  F0 B0--- F1 B1--- .  .",
        ),
        (
            "naive", 1, (1, 1), 1,
            "rank 0  F0 .  .  B0 F1 .  .  B1\n"
            "rank 1  .  F0 B0 .  .  F1 B1 .",
        ),
        (
            "interleaved", 2, (3, 3), 3,
            "rank 0  0F0 0F1 2F0 2F1 .   2B0 .   2B1 0B0 0B1\n"
            "rank 1  .   1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 .",
        ),
    ],
)  # fmt: skip
def test_grids_that_were_drawn_by_hand(family, chunks, times, unit_ns, grid):
    found = text_grid(timeline(family, ranks=2, chunks=chunks, microbatches=2, times=times))
    assert found == (grid, unit_ns)


def test_what_takes_no_time_is_not_drawn():
    assert text_grid(timeline("1f1b", ranks=1, chunks=1, microbatches=2, times=(0, 2))) == ("rank 0  B0 B1", 2)


def test_a_grid_that_nobody_can_read_is_empty():
    assert text_grid(timeline("1f1b", ranks=2, chunks=1, microbatches=2, times=(1, MOST_CHARACTERS)))[0] == ""


@pytest.mark.parametrize("most", [10, 24, 37, 80])
def test_what_is_too_wide_goes_on_below(most):
    step = timeline("1f1b", ranks=3, chunks=1, microbatches=4, times=(1, 2))
    whole, _ = text_grid(step)
    bands = [band.splitlines() for band in text_grid(step, most=most)[0].split("\n\n")]
    label = len("rank 0  ")
    assert all(len(line) <= max(most, label + 3) for band in bands for line in band)
    width = max(len(line) for band in bands[:-1] for line in band) if len(bands) > 1 else len(whole)
    joined = ["".join(line[label:].ljust(width - label) for line in rows).rstrip() for rows in zip(*bands, strict=True)]
    assert [line.split() for line in joined] == [line[label:].split() for line in whole.splitlines()]


def test_a_step_of_no_time_has_a_line_for_each_rank():
    assert text_grid(timeline("1f1b", ranks=2, chunks=1, microbatches=1, times=(0, 0)))[0] == "rank 0\nrank 1"
