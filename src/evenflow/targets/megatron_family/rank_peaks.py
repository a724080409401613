"""Peak memory of every stage from the output of a Megatron-LM job.

Megatron-LM writes one line for each rank that is the first of its data-parallel group; Megatron-Bridge writes longer
ones, in 10^9 bytes::

    [Rank 8] (after 2 iterations) memory (MB) | allocated: 3.0 | max allocated: 5.5 | reserved: 6.0 | max reserved: 6.0
    [Rank 8] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 3.1 | … | mem-max-allocated-gigabytes: 5.7 | …

The last line of a rank counts. `actual` peaks are reserved memory, `used` peaks allocated memory.
[Megatron-LM, `report_memory` in megatron/training/utils.py; Megatron-Bridge, src/megatron/bridge/training/utils/
train_utils.py at 031e7de]
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.logs.stage_peaks import PeakKind, peaks_in_order
from evenflow.units import parse_memory

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_LINE = re.compile(
    r"\[Rank ([0-9]{1,6})\] [^|\[]*memory \(MB\) \| allocated: [0-9.]+"
    rf" \| max allocated: {_NUMBER} \| reserved: [0-9.]+ \| max reserved: {_NUMBER}"
)
_BRIDGE_LINE = re.compile(
    r"\[Rank ([0-9]{1,6})\] [^|\[]*memory \(GB\) \|[^\[]{0,400}?"
    rf" mem-max-allocated-gigabytes: {_NUMBER}[^\[]{{0,400}}? mem-max-reserved-gigabytes: {_NUMBER}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPeak:
    """Peak memory of one rank of a job."""

    rank: int
    allocated_bytes: int
    reserved_bytes: int


def rank_peaks(line: str, *, place: str) -> Iterator[RankPeak]:
    """Yield the peaks in a line of a log, of as many ranks as wrote into it."""
    if "memory (" not in line:
        return
    place = _("{place}: the peak memory", place=place)
    for match in _LINE.finditer(line):
        allocated, reserved = (parse_memory(match[group], place=place) for group in (2, 3))
        yield RankPeak(rank=int(match[1]), allocated_bytes=allocated, reserved_bytes=reserved)
    for match in _BRIDGE_LINE.finditer(line):
        allocated, reserved = (parse_memory(f"{round(float(match[group]) * 10**9)}B", place=place) for group in (2, 3))
        yield RankPeak(rank=int(match[1]), allocated_bytes=allocated, reserved_bytes=reserved)


def parse_rank_lines(
    lines: Iterable[str], *, ranks_per_stage: int, place: str, kind: PeakKind = PeakKind.ACTUAL
) -> tuple[int, ...]:
    """Return the peak bytes of each stage, the most of any of its ranks, from the output of a Megatron-LM job.

    Rank r belongs to stage ``r // ranks_per_stage``: the pipeline is the outermost of Megatron-LM's groups.

    Raises:
        InputError: no such line, or a stage missing.
    """
    by_rank: dict[int, int] = {}
    for line in lines:
        for peak in rank_peaks(line, place=place):
            by_rank[peak.rank] = peak.reserved_bytes if kind is PeakKind.ACTUAL else peak.allocated_bytes
    if not by_rank:
        raise InputError(
            rule=_("must have lines such as '[Rank 0] (after 2 iterations) memory (MB) | allocated: …'"),
            place=place,
            remedy=_("train until --log-interval: they come with the first line of training progress"),
        )
    peaks: dict[int, int] = {}
    for rank, size in by_rank.items():
        stage = rank // ranks_per_stage
        peaks[stage] = max(size, peaks.get(stage, 0))
    return peaks_in_order(peaks, place=place)
