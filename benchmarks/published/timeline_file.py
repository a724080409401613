"""Published timelines of a pipeline as values: every forward and backward of every rank, with its start and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from evenflow.fields import Fields, as_fields, load_json, read_text
from evenflow.model import Sizes
from evenflow.ranges import Range
from evenflow.schedule import Action, Op, Schedule, check_complete
from evenflow.units import NANOSECONDS_PER_MILLISECOND

_RANKS = Range(least=1, most=10_000)
_CHUNKS = Range(least=1, most=1_000)
_MICROBATCHES = Range(least=1, most=100_000)
_INDEX = Range(least=0, most=100_000)
_GIGABYTES = Range(least=0, most=10_000, is_whole=False, unit="GB")
_MILLISECONDS = Range(least=0, most=1e9, is_whole=False, unit="ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """A measured step of one rank."""

    durations_ns: tuple[int, ...]
    """Of its actions, in their order."""
    pause_ns: int
    """The shortest time between the end of an action and the start of the next one."""
    span_ns: int
    """From the start of its first forward to the end of its last backward."""
    memory_gb: float
    """Peak memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTimeline:
    """Measured steps of a pipeline and their order."""

    name: str
    schedule: Schedule
    steps: dict[int, tuple[RankStep, ...]]
    """The ranks of every step, by its number."""


def read_timeline(path: Path) -> PublishedTimeline:
    """Return the timeline of a JSON file of the form in README.md.

    Raises:
        InputError: a file that cannot be read, of another form, or with steps that lack ranks or actions.
        ScheduleError: an order that lacks actions or can never finish.
    """
    file = str(path)
    fields = as_fields(load_json(read_text(path), file=file), file=file)
    sizes = Sizes(
        num_ranks=fields.integer("ranks", _RANKS),
        num_chunks=fields.integer("chunks", _CHUNKS),
        num_microbatches=fields.integer("microbatches", _MICROBATCHES),
    )
    num_ranks = sizes.num_ranks
    order = fields.inner("order")
    orders = [_order(order.inner(str(rank)), rank, sizes) for rank in range(num_ranks)]
    schedule = Schedule.from_actions(
        name=path.stem,
        num_stages=num_ranks * sizes.num_chunks,
        num_microbatches=sizes.num_microbatches,
        orders=orders,
    )
    check_complete(schedule)
    steps: dict[int, dict[int, RankStep]] = {}
    for entry in fields.objects("steps"):
        rank = entry.integer("rank", _INDEX)
        ranks = steps.setdefault(entry.integer("step", _INDEX), {})
        if rank in ranks or rank >= num_ranks:
            raise entry.error("rank", "must be a rank of the pipeline, once in each step")
        ranks[rank] = _rank_step(entry, orders[rank])
    for number, ranks in steps.items():
        if len(ranks) != num_ranks:
            raise fields.error("steps", f"must have every rank of step {number}")
    if not steps:
        raise fields.error("steps", "must have a step")
    return PublishedTimeline(
        name=path.stem,
        schedule=schedule,
        steps={number: tuple(ranks[rank] for rank in range(num_ranks)) for number, ranks in steps.items()},
    )


def _order(fields: Fields, rank: int, sizes: Sizes) -> list[Action]:
    """Return the actions of a rank: first forwards only, then forward and backward in turn, then the rest."""
    forwards = _actions(fields, "forward", Op.F, rank, sizes)
    backwards = _actions(fields, "backward", Op.B, rank, sizes)
    filling = fields.integer("warmup_forwards", _INDEX)
    if filling > len(forwards):
        raise fields.error("warmup_forwards", "must be at most the number of forwards")
    order = forwards[:filling]
    for forward, backward in zip(forwards[filling:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - filling :]


def _actions(fields: Fields, key: str, op: Op, rank: int, sizes: Sizes) -> list[Action]:
    pairs = fields.rows(key, _INDEX)
    count = sizes.num_microbatches * sizes.num_chunks
    if len(pairs) != count or any(len(pair) != 2 or pair[1] >= sizes.num_chunks for pair in pairs):
        raise fields.error(key, f"must be a list of {count} times [microbatch, chunk]")
    return [Action(stage=chunk * sizes.num_ranks + rank, op=op, microbatch=unit) for unit, chunk in pairs]


def _rank_step(fields: Fields, order: Sequence[Action]) -> RankStep:
    spans = {Op.F: iter(_spans(fields, "forward_ms")), Op.B: iter(_spans(fields, "backward_ms"))}
    found = [span for action in order if (span := next(spans[action.op], None))]
    if len(found) != len(order) or any(next(rest, None) for rest in spans.values()):
        raise fields.error("", "must have a start and an end for every action of the order, and no more")
    pauses = [after[0] - before[1] for before, after in pairwise(found)]
    if min(pauses, default=0) < 0:
        raise fields.error("", "must have actions that follow each other in the order of the rank")
    span_ns = found[-1][1] - found[0][0]
    if not span_ns:
        raise fields.error("", "must take some time")
    return RankStep(
        durations_ns=tuple(end - start for start, end in found),
        pause_ns=min(pauses, default=0),
        span_ns=span_ns,
        memory_gb=fields.number("memory_gb", _GIGABYTES, above_zero=True),
    )


def _spans(fields: Fields, key: str) -> list[tuple[int, int]]:
    """Return starts and ends in ns."""
    values = fields.required(key)
    found = [_span(value) for value in values] if isinstance(values, list) else [None]
    if None in found:
        raise fields.error(key, "must be a list of [start, end] in ms, the end not before the start")
    return [span for span in found if span]


def _span(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2 or not all(edge in _MILLISECONDS for edge in value):
        return None
    start, end = (round(edge * NANOSECONDS_PER_MILLISECOND) for edge in value)
    return (start, end) if start <= end else None
