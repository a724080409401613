"""The timelines in a report, read back as they were shown: the inverse of `payload` and `columns`."""

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import fields as fields_of
from itertools import pairwise

import numpy as np

from evenflow.draw.memory_curve_picture import CurvePoint
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, is_integer, load_json
from evenflow.language import _
from evenflow.model import Sizes
from evenflow.profiles.report_file import data_of, head_of, plans_of
from evenflow.ranges import RANKS, STEP_TOTAL, Range
from evenflow.report.columns import ENCODERS, decoded, unzigzag
from evenflow.report.payload import VERSION
from evenflow.report.shown import Advice, Integers, Kind, RunBlock, Shown, ShownCopies, ShownMemory, StepWork
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate import EncoderParts, IdleGaps, IdleTime, PathShare

_CODE = re.compile(r"[\w.~]{0,20000}", re.ASCII)
_SIGNED = Range(least=-STEP_TOTAL.most, most=STEP_TOTAL.most)


def shown_of_report(text: str, *, place: str) -> Iterator[Shown]:
    """Give the timelines in the text of a report; `place` names the file in messages.

    Raises:
        InputError: a page that evenflow did not write, or that was damaged.
    """
    head = as_fields(load_json(head_of(text, place=place), file=place), file=place)
    if head.values.get("version") != VERSION:
        raise head.error("version", _("must be {version}", version=VERSION))
    timelines = head.objects("timelines")
    size = sum(column.integer("bytes", STEP_TOTAL) for fields in timelines for column in _columns(fields).values())
    data = _inflated(data_of(text, place=place), size, place=place)
    plans = plans_of(text)
    for timeline in timelines:
        yield _shown(timeline, data, plans)


def _inflated(text: str, size: int, *, place: str) -> bytes:
    """Return the columns of all timelines, `size` bytes."""
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = reader.decompress(base64.b64decode(text, validate=True), size + 1)
    except (ValueError, zlib.error):  # of base64, of deflate
        data = b""
    if len(data) != size:
        raise _damaged(place)
    return data


def _columns(timeline: Fields) -> dict[str, Fields]:
    columns = timeline.inner("columns")
    return {name: columns.inner(name) for name in columns.values}


def _shown(timeline: Fields, data: bytes, plans: list[str]) -> Shown:
    """Return a timeline from its fields and its columns."""
    columns = {name: _column(data, column, place=timeline.place(name)) for name, column in _columns(timeline).items()}
    schedule = _schedule(timeline, columns)
    count, num_ranks = schedule.num_actions, schedule.num_ranks

    def column(name: str, length: int = count) -> Integers:
        values = columns.get(name)
        if values is None or len(values) != length or int(values.astype(np.float64).sum()) not in STEP_TOTAL:
            raise _damaged(timeline.place(name))
        return values

    gaps, durations = column("gap_ns", count + num_ranks), column("duration_ns")
    makespan_ns = timeline.integer("makespan_ns", STEP_TOTAL)
    start_ns = _starts(schedule, gaps, durations, makespan_ns, place=timeline.place("gap_ns"))
    coded = column("input")
    inputs = np.where(coded == 0, -1, np.arange(count) - unzigzag(coded - 1))
    if ((inputs < -1) | (inputs >= count)).any():
        raise _damaged(timeline.place("input"))
    causes = None
    if "fill" in columns:
        parts = [column(name, count + num_ranks) for name in ("fill", "imbalance", "recomputing")]
        copying = column("host_copies", count + num_ranks) if "host_copies" in columns else np.zeros_like(gaps)
        rest = gaps - parts[0] - parts[1] - parts[2] - copying
        if rest.min(initial=0) < 0:
            raise _damaged(timeline.place("fill"))
        causes = IdleGaps(
            total_ns=gaps,
            fill_drain_ns=parts[0],
            imbalance_ns=parts[1],
            recompute_ns=parts[2],
            communication_ns=rest,
            host_copies_ns=copying,
        )
    end_ns = start_ns + durations
    copies = None
    if "to_host_of" in columns and "from_host_of" in columns:
        numbers = {name: len(columns[name]) for name in ("to_host_of", "from_host_of")}
        actions = {name: np.cumsum(column(name, number)) for name, number in numbers.items()}
        if any(found.max(initial=0) >= count for found in actions.values()):
            raise _damaged(timeline.place("to_host_of"))
        leaving, returning = actions.values()
        leaves = end_ns[leaving] + column("to_host_behind_ns", len(leaving))
        back = start_ns[returning] - column("from_host_ahead_ns", len(returning))
        copies = (
            ShownCopies(actions=leaving, start_ns=leaves, end_ns=leaves + column("to_host_ns", len(leaving))),
            ShownCopies(actions=returning, start_ns=back - column("from_host_ns", len(returning)), end_ns=back),
        )
    encoders = []
    for name in ENCODERS:
        if f"{name}_rank" in columns:
            number = len(columns[f"{name}_rank"])
            ranks, units = column(f"{name}_rank", number), column(f"{name}_unit", number)
            if ranks.max(initial=0) >= num_ranks or units.max(initial=0) >= schedule.num_microbatches:
                raise _damaged(timeline.place(f"{name}_rank"))
            begins = unzigzag(column(f"{name}_start_ns", number))
            ends = begins + column(f"{name}_ns", number)
            encoders.append(EncoderParts(ranks=ranks, start_ns=begins, end_ns=ends, microbatches=units))
    memory = None
    if "memory" in columns:
        memory = ShownMemory(
            static_bytes=_bytes(timeline, "static_bytes", num_ranks),
            working_bytes=_bytes(timeline, "working_bytes", num_ranks),
            changes=unzigzag(column("memory")),
            end_changes=unzigzag(column("memory_at_end")) if "memory_at_end" in columns else None,
        )
    has_peaks = timeline.values.get("peak_bytes") is not None
    return Shown(
        name=timeline.text("name"),
        kind=_kind(timeline),
        schedule=schedule,
        start_ns=start_ns,
        end_ns=end_ns,
        makespan_ns=makespan_ns,
        step_ns=None if timeline.values.get("step_ns") is None else timeline.integer("step_ns", STEP_TOTAL),
        work=_work(timeline),
        gaps_ns=gaps,
        recompute_ns=column("recompute_ns"),
        inputs=inputs,
        message_ns=column("message_ns"),
        causes=causes,
        waiting_ns=_waiting(column("waiting", count + num_ranks), gaps, timeline) if "waiting" in columns else None,
        idle=None if "waiting" in columns else _idle(timeline, num_ranks),
        exposed_ns=timeline.integers("exposed_ns", STEP_TOTAL, length=num_ranks) if "exposed_ns" in timeline else None,
        path=_path(timeline, num_ranks),
        copies=copies,
        encoders=tuple(encoders),
        saved_ns=_saved(schedule, column("pair") - 1, place=timeline.place("pair")) if "pair" in columns else None,
        memory=memory,
        peak_bytes=_bytes(timeline, "peak_bytes", num_ranks) if has_peaks else None,
        limit_bytes=timeline.integer("limit_bytes", STEP_TOTAL) if timeline.values.get("limit_bytes") else None,
        stage_layers=timeline.texts("stage_layers"),
        figures=_figures(timeline),
        certificate=str(timeline.values.get("certificate", "")),
        notes=timeline.texts("notes"),
        decision=tuple(Advice(text=item.text("text")) for item in timeline.objects("decision")),
        curve=tuple(_curve_point(item) for item in timeline.objects("curve")) if "curve" in timeline else (),
        run=tuple(_run_block(item) for item in timeline.objects("run")),
        plan=_plan(timeline, plans),
        what_if=timeline.inner("what_if").values if "what_if" in timeline else None,
    )


def _waiting(waiting_ns: Integers, gaps_ns: Integers, timeline: Fields) -> Integers:
    """Return the waiting of a measured step, which is part of its gaps."""
    if (waiting_ns > gaps_ns).any():
        raise _damaged(timeline.place("waiting"))
    return waiting_ns


def _saved(schedule: Schedule, saved_ns: Integers, *, place: str) -> Integers:
    """Return what pairs save, whose forwards all have a backward of their rank behind them."""
    forwards = np.flatnonzero(saved_ns >= 0)
    if np.isin(forwards + 1, schedule.rank_starts[1:]).any() or (
        (schedule.ops[forwards] != Op.F).any() or (schedule.ops[forwards + 1] != Op.B).any()
    ):
        raise _damaged(place)
    return saved_ns


def _work(timeline: Fields) -> StepWork:
    """Return what a step works through; reports of earlier versions do not say it."""
    if "work" not in timeline:
        return StepWork()
    work = timeline.inner("work")
    names = [field.name for field in fields_of(StepWork) if work.values.get(field.name) is not None]
    return StepWork(**{name: work.integer(name, STEP_TOTAL) for name in names})


def _curve_point(point: Fields) -> CurvePoint:
    return CurvePoint(
        limit_bytes=point.integer("limit_bytes", STEP_TOTAL),
        step_ns=point.integer("step_ns", STEP_TOTAL),
        is_proven=point.values.get("is_proven") is True,
        change=_code(point),
    )


def _code(point: Fields) -> str:
    """Return the change that makes the plan that of a point, which goes into an address."""
    code = point.values.get("change", "")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise _damaged(point.place("change"))
    return code


def _column(data: bytes, column: Fields, *, place: str) -> Integers:
    """Return the numbers of a column."""
    offset, size = column.integer("offset", STEP_TOTAL), column.integer("bytes", STEP_TOTAL)
    part = data[offset : offset + size]
    if len(part) != size:
        raise _damaged(place)
    values = decoded(part)
    if values is None:
        raise _damaged(place)
    return values


def _schedule(timeline: Fields, columns: dict[str, Integers]) -> Schedule:
    """Return the order of work."""
    sizes = Sizes(
        num_ranks=timeline.integer("ranks", STEP_TOTAL),
        num_chunks=timeline.integer("chunks", STEP_TOTAL),
        num_microbatches=timeline.integer("microbatches", STEP_TOTAL),
        sequence_splits=timeline.integer("splits", STEP_TOTAL),
    )
    count = timeline.integer("actions", STEP_TOTAL)
    starts = np.array(timeline.integers("rank_starts", STEP_TOTAL, length=sizes.num_ranks + 1))
    stage_ranks = timeline.integers("stage_rank", Range(least=0, most=RANKS.most), length=sizes.num_cells)
    if not np.array_equal(np.bincount(stage_ranks), [sizes.num_chunks] * sizes.num_ranks):
        raise _damaged(timeline.place("stage_rank"))
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise _damaged(timeline.place("rank_starts"))
    codes = []
    for name, most in (("op", NUM_OPS), ("stage", sizes.num_cells), ("unit", sizes.num_units)):
        values = columns.get(name)
        if values is None or len(values) != count or values.max(initial=0) >= most:
            raise _damaged(timeline.place(name))
        codes.append(values)
    table = np.array(codes, dtype=np.int32).reshape(3, count)
    return Schedule.from_orders(
        name=timeline.text("schedule"),
        num_stages=sizes.num_cells,
        num_microbatches=sizes.num_microbatches,
        sequence_splits=sizes.sequence_splits,
        stage_ranks=stage_ranks,
        orders=[table[:, begin:end] for begin, end in pairwise(starts.tolist())],
    )


def _starts(schedule: Schedule, gaps: Integers, durations: Integers, makespan_ns: int, *, place: str) -> Integers:
    """Return the start of every action; the last gap of each rank ends with the step."""
    starts = np.empty(schedule.num_actions, dtype=np.int64)
    for rank in range(schedule.num_ranks):
        own = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        ends = np.cumsum(gaps[own] + durations[own])
        starts[own] = ends - durations[own]
        if (int(ends[-1]) if len(ends) else 0) + int(gaps[schedule.num_actions + rank]) != makespan_ns:
            raise _damaged(place)
    return starts


def _kind(timeline: Fields) -> Kind:
    word = timeline.text("kind")
    if word not in {kind.value for kind in Kind}:
        raise _damaged(timeline.place("kind"))
    return Kind(word)


def _bytes(timeline: Fields, key: str, num_ranks: int) -> tuple[int, ...]:
    return timeline.integers(key, STEP_TOTAL, length=num_ranks)


def _idle(timeline: Fields, num_ranks: int) -> tuple[IdleTime, ...] | None:
    """Return the idle time of every rank by cause."""
    if timeline.values.get("idle") is None:
        return None
    names = [field.name for field in fields_of(IdleTime)]
    if timeline.values.get("copies") is None:
        names.remove("host_copies_ns")
    ranks = timeline.objects("idle")
    if len(ranks) != num_ranks:
        raise _damaged(timeline.place("idle"))
    return tuple(IdleTime(**{name: rank.integer(name, _SIGNED) for name in names}) for rank in ranks)


def _path(timeline: Fields, num_ranks: int) -> tuple[PathShare, ...]:
    """Return what every rank has of a longest path."""
    shares = timeline.objects("path") if "path" in timeline else []
    if shares and len(shares) != num_ranks:
        raise _damaged(timeline.place("path"))
    names = [field.name for field in fields_of(PathShare)]
    return tuple(PathShare(**{name: share.integer(name, _SIGNED) for name in names}) for share in shares)


def _figures(timeline: Fields) -> tuple[tuple[str, str], ...]:
    pairs = timeline.required("figures")
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(item, str) for item in pair) for pair in pairs
    ):
        raise _damaged(timeline.place("figures"))
    return tuple((name, value) for name, value in pairs)


def _run_block(block: Fields) -> RunBlock:
    return RunBlock(**{field.name: str(block.values.get(field.name, "")) for field in fields_of(RunBlock)})


def _plan(timeline: Fields, plans: list[str]) -> str | None:
    index = timeline.values.get("plan")
    if index is None:
        return None
    if not is_integer(index) or not 0 <= index < len(plans):
        raise _damaged(timeline.place("plan"))
    return plans[index]


def _damaged(place: str) -> InputError:
    rule = _("must be as evenflow wrote it")
    return InputError(rule=rule, place=place, remedy=_("write the report again: this one is damaged"))
