"""The section of an init file with the peaks of its dry runs."""

from collections.abc import Sequence
from typing import Any

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.memory.peaks import Peak
from evenflow.ranges import MEGABYTES
from evenflow.units import bytes_from_megabytes

BODY = "body_memories"


def read_peaks(memory: Fields, body: Fields, rounds: Sequence[Plan]) -> tuple[Peak, ...]:
    """Return the peaks of first stage, middle stages by round, and last stage, from `memory_usage` and its `body`."""
    last = rounds[0].num_ranks - 1
    peaks = [Peak(round_index=0, rank=0, peak_bytes=_peak(memory, "head_memory"))]
    ids = _lists_by_round(body, "stage_id", len(rounds))
    sizes = _lists_by_round(body, "memories", len(rounds))
    for index, ((name, stages), (sizes_name, megabytes)) in enumerate(zip(ids, sizes, strict=True)):
        _check_stages(stages, last, place=name)
        if len(megabytes) != len(stages):
            raise InputError(
                value=megabytes,
                rule=_(
                    "must have a memory for each of the {stages} stages of stage_id; here are {here}",
                    stages=len(stages),
                    here=len(megabytes),
                ),
                place=sizes_name,
            )
        for entry, (stage, size) in enumerate(zip(stages, megabytes, strict=True), start=1):
            place = _("{place}, entry {entry} (stage {stage})", place=sizes_name, entry=entry, stage=stage)
            peak_bytes = _peak(Fields(values={"": size}, file=place), "")
            peaks.append(Peak(round_index=index, rank=stage, peak_bytes=peak_bytes))
    return (*peaks, Peak(round_index=0, rank=last, peak_bytes=_peak(memory, "tail_memory")))


def _lists_by_round(fields: Fields, key: str, num_rounds: int) -> list[tuple[str, list[Any]]]:
    """Return a list for each round, with its place for messages; a flat list is that of a single round."""
    value, place = fields.required(key), fields.place(key)
    rows = value if isinstance(value, list) and any(isinstance(row, list) for row in value) else [value]
    if len(rows) != num_rounds or not all(isinstance(row, list) and row for row in rows):
        rule = (
            _("must be a list of lists, one for each of the {num_rounds} rounds", num_rounds=num_rounds)
            if num_rounds > 1
            else _("must be a list of numbers")
        )
        raise fields.error(key, rule)
    return [
        (_("{place}, round {number}", place=place, number=index + 1) if num_rounds > 1 else place, row)
        for index, row in enumerate(rows)
    ]


def _check_stages(stages: list[Any], last: int, *, place: str) -> None:
    """Refuse a stage that is no middle one, or stands twice in a round."""
    seen: set[int] = set()
    for stage in stages:
        if not is_integer(stage) or not 0 < stage < last:
            raise InputError(
                value=stage,
                rule=_("must have middle stages, from 1 to {last}", last=last - 1),
                place=place,
                remedy=_(
                    "give stages 0 and {last} as head_memory and tail_memory, those of the first round", last=last
                ),
            )
        if stage in seen:
            raise InputError(value=stage, rule=_("must have every stage once in a round"), place=place)
        seen.add(stage)


def _peak(fields: Fields, key: str) -> int:
    """Return the bytes of a peak in megabytes."""
    return bytes_from_megabytes(fields.number(key, MEGABYTES, above_zero=True))
