"""Peaks of an init file: first stage, middle stages of each round, last stage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.profiles.init.init_peaks import read_peaks
from evenflow.profiles.memory.peaks import Peak
from evenflow.units import MEGABYTE
from tests.profiles.memory.dry_runs import dry_run

FIVE = dry_run([4, 4, 4, 4, 4])


def peaks(stages: object, sizes: object, *, num_rounds: int = 1, head: object = 100, tail: object = 90) -> list[Peak]:
    memory = Fields(values={"head_memory": head, "tail_memory": tail}, file="init.yaml", path="memory_usage")
    body = Fields(values={"stage_id": stages, "memories": sizes}, file="init.yaml", path="memory_usage.body_memories")
    return list(read_peaks(memory, body, [FIVE] * num_rounds))


@given(st.lists(st.lists(st.sampled_from([1, 2, 3]), unique=True, min_size=1), min_size=1, max_size=4))
def test_every_peak_has_its_round_and_stage(stages: list[list[int]]):
    sizes = [[10 * index + stage + 1 for stage in own] for index, own in enumerate(stages)]
    first, *middle, last = peaks(stages, sizes, num_rounds=len(stages))
    assert (first.round_index, first.rank, first.peak_bytes) == (0, 0, 100 * MEGABYTE)
    assert (last.round_index, last.rank, last.peak_bytes) == (0, 4, 90 * MEGABYTE)
    assert [(peak.round_index, peak.rank, peak.peak_bytes // MEGABYTE) for peak in middle] == [
        (index, stage, size)
        for index, (own, held) in enumerate(zip(stages, sizes, strict=True))
        for stage, size in zip(own, held, strict=True)
    ]
    if len(stages) == 1:
        assert peaks(stages[0], sizes[0]) == [first, *middle, last], "a flat list is that of a single round"


@pytest.mark.parametrize(
    ("stages", "sizes", "num_rounds", "message"),
    [
        ([0, 1], [1, 1], 1, "middle stages, from 1 to 3, got 0"),
        ([1, 4], [1, 1], 1, "middle stages, from 1 to 3, got 4"),
        ([True], [1], 1, "middle stages"),
        ([1, 1], [1, 1], 1, "every stage once in a round"),
        ([1, 2], [1], 1, "a memory for each of the 2 stages of stage_id; here are 1"),
        ([1, 2], [1, 0], 1, r"entry 2 \(stage 2\)"),
        ([1], [1], 2, "a list of lists, one for each of the 2 rounds"),
        ([[1], []], [[1], []], 2, "a list of lists, one for each of the 2 rounds"),
        ([[1], [2]], [[1], [2, 3]], 2, "round 2"),
        ([], [], 1, "must be a list of numbers"),
        (5, [1], 1, "must be a list of numbers"),
    ],
)
def test_lists_that_do_not_fit_are_refused(stages: object, sizes: object, num_rounds: int, message: str):
    with pytest.raises(InputError, match=message):
        peaks(stages, sizes, num_rounds=num_rounds)


@pytest.mark.parametrize("end", ["head", "tail"])
def test_the_ends_take_memory(end: str):
    with pytest.raises(InputError, match=f"{end}_memory"):
        peaks([1], [1], **{end: 0})
