"""A measured step in one JSON file, which any training script can write: see docs/report.md.

{"ranks": 2, "microbatches": 2, "steps": [
    {"step": 5, "rank": 0, "memory_gb": 40.5, "forward_ms": [[0, 10], [10, 20]], "backward_ms": [[50, 70], [70, 90]]},
    {"step": 5, "rank": 1, …}]}
"""

import statistics
from collections.abc import Iterable

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_table
from evenflow.language import _
from evenflow.profiles.steps.measured_step import MOST_RANKS, MeasuredStep
from evenflow.profiles.steps.rank_records import BACKWARD, FORWARD, WEIGHT, Cell, RankRecord, Records, step_of_records
from evenflow.ranges import CHUNKS, MEGABYTES, MICROBATCHES, MILLISECONDS, Range
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds

_SPANS = {FORWARD: "forward_ms", BACKWARD: "backward_ms", WEIGHT: "weight_ms"}
_ORDERS = {FORWARD: "forward", BACKWARD: "backward", WEIGHT: "weight"}
_STEP = Range(least=0, most=10**9)
_GIGABYTES = Range(least=0, most=MEGABYTES.most / 1024, is_whole=False, unit="GB")


def is_step_file(fields: Fields) -> bool:
    """Return whether a decoded file has this form."""
    return isinstance(fields.values.get("steps"), list) and "ranks" in fields


def step_of_file(fields: Fields) -> MeasuredStep:
    """Return the step of median length in a decoded file.

    Raises:
        InputError: a field that is missing, of a wrong type, or against the others.
    """
    num_ranks = fields.integer("ranks", MOST_RANKS)
    num_chunks = fields.integer("chunks", CHUNKS) if "chunks" in fields else 1
    num_microbatches = fields.integer("microbatches", MICROBATCHES)
    by_step: dict[int, dict[int, Fields]] = {}
    for entry in fields.objects("steps"):
        rank = entry.integer("rank", Range(least=0, most=num_ranks - 1))
        ranks = by_step.setdefault(entry.integer("step", _STEP), {})
        if rank in ranks:
            raise entry.error("rank", _("must be there once for each step"))
        ranks[rank] = entry
    whole = [step for step in sorted(by_step) if len(by_step[step]) == num_ranks]
    if not whole:
        rule = _("must have a step that each of the {count} ranks recorded", count=num_ranks)
        raise fields.error("", rule)
    orders = [_order(fields, rank, num_chunks, num_microbatches) for rank in range(num_ranks)]
    records = {step: [_record(by_step[step][rank], orders[rank]) for rank in range(num_ranks)] for step in whole}
    lengths = {step: _length(records[step]) for step in whole}
    median = statistics.median_low(lengths.values())
    chosen = next(step for step in whole if lengths[step] == median)
    return step_of_records(
        records[chosen],
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
        name=_("step {number}", number=chosen),
        place=_("{file}, step {number}", file=fields.file, number=chosen),
        notes=[_("Step {number}: of median length of {count}.", number=chosen, count=len(whole))],
    )


def _order(fields: Fields, rank: int, num_chunks: int, num_microbatches: int) -> dict[str, list[Cell]]:
    """Return microbatch and chunk of a rank's actions in order, by kind, where the file says that."""
    if "order" not in fields:
        return {}
    of_rank = fields.inner("order").inner(str(rank))
    order = {}
    for kind, key in _ORDERS.items():
        if key not in of_rank:
            continue
        rows = of_rank.required(key)
        if not is_integer_table(rows) or not all(
            len(row) == 2 and 0 <= row[0] < num_microbatches and 0 <= row[1] < num_chunks for row in rows
        ):
            rule = _(
                "must be a list of [microbatch, chunk], below {microbatches} and {chunks}",
                microbatches=num_microbatches,
                chunks=num_chunks,
            )
            raise of_rank.error(key, rule)
        order[kind] = [(microbatch, chunk) for microbatch, chunk in rows]
    return order


def _record(entry: Fields, order: dict[str, list[Cell]]) -> RankRecord:
    by_kind = {}
    for kind, key in _SPANS.items():
        if kind == WEIGHT and key not in entry:
            continue
        spans = list(_spans(entry, key))
        cells = order.get(kind)
        if cells is not None and len(cells) != len(spans):
            raise entry.error(key, _("must have as many times as the order has actions ({count})", count=len(cells)))
        by_kind[kind] = Records(spans_ns=spans, cells=cells)
    peak = None
    if "memory_gb" in entry:
        peak = bytes_from_megabytes(entry.number("memory_gb", _GIGABYTES) * 1024)
    return RankRecord(by_kind=by_kind, peak_bytes=peak)


def _spans(entry: Fields, key: str) -> Iterable[tuple[int, int]]:
    values = entry.required(key)
    rule = _("must be a list of [start, end] in ms")
    if not isinstance(values, list):
        raise entry.error(key, rule)
    for value in values:
        is_pair = isinstance(value, list) and len(value) == 2 and all(time in MILLISECONDS for time in value)
        if not is_pair or value[1] < value[0]:
            raise InputError(value=value, rule=rule, place=entry.place(key))
        yield nanoseconds_from_milliseconds(value[0]), nanoseconds_from_milliseconds(value[1])


def _length(ranks: list[RankRecord]) -> int:
    """Return the time of the longest rank from its first start to its last end, by its own clock."""
    spans = [[span for records in rank.by_kind.values() for span in records.spans_ns] for rank in ranks]
    return max((max(end for _, end in own) - min(start for start, _ in own) for own in spans if own), default=0)
