"""Peak memory of every stage from the output of a Megatron-LM job.

Megatron-LM writes one line for each rank that is the first of its data-parallel group::

    [Rank 8] (after 2 iterations) memory (MB) | allocated: 3.0 | max allocated: 5.5 | reserved: 6.0 | max reserved: 6.0

The last line of a rank counts. `actual` peaks are reserved memory, `used` peaks allocated memory.
"""

import re
from collections.abc import Iterable

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.logs.stage_peaks import PeakKind, peaks_in_order
from evenflow.units import parse_memory

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_LINE = re.compile(
    r"\[Rank ([0-9]{1,6})\] [^|\[]*memory \(MB\) \| allocated: [0-9.]+"
    rf" \| max allocated: {_NUMBER} \| reserved: [0-9.]+ \| max reserved: {_NUMBER}"
)


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
        for match in _LINE.finditer(line):
            size = match[3 if kind is PeakKind.ACTUAL else 2]
            by_rank[int(match[1])] = parse_memory(size, place=_("{place}: the peak memory", place=place))
    if not by_rank:
        raise InputError(
            value=None,
            rule=_("must have lines such as '[Rank 0] (after 2 iterations) memory (MB) | allocated: …'"),
            place=place,
            remedy=_("train until --log-interval: they come with the first line of training progress"),
        )
    peaks: dict[int, int] = {}
    for rank, peak in by_rank.items():
        stage = rank // ranks_per_stage
        peaks[stage] = max(peak, peaks.get(stage, 0))
    return peaks_in_order(peaks, place=place)
