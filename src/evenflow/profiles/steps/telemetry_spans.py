"""Spans of OpenTelemetry, as Megatron-LM emits them for microbatches, messages and steps, in files of any exporter.

    {"resourceSpans": [{"resource": …, "scopeSpans": [{"spans": [{"name": …, "startTimeUnixNano": …}]}]}]}   OTLP
    {"data": [{"spans": [{"operationName": …, "startTime": µs, "duration": µs}], "processes": …}]}            Jaeger
    {"name": …, "start_time": "2026-08-01T10:00:00.000001Z", …, "resource": {"attributes": …}}        console of its SDK
    {"name": …, "start_time_unix_nano": …, "end_time_unix_nano": …, "attributes": …}                  lines of JSON

Such an object may stand alone, or many one after the other, with lines of a log between them. Spans are times of the
host: kernels may still run when they end.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from evenflow.errors import InputError
from evenflow.fields import read_head, read_text
from evenflow.language import _, looked_up
from evenflow.profiles.file_order import by_number
from evenflow.profiles.steps.action_names import NAMINGS, Naming
from evenflow.profiles.steps.guessed_ranges import without_nested
from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.observed_step import ObservedStep
from evenflow.profiles.steps.rank_ranges import Communicated, NamedRange, RankRanges, no_spans, union
from evenflow.profiles.steps.step_of_ranks import Told, step_of_ranks
from evenflow.profiles.traces.names import names_there

_SUFFIXES = (".json", ".jsonl")
_HEAD_BYTES = 2**16
_SIGNS = (
    re.compile(rb'"resourceSpans"\s*:\s*\['),
    re.compile(rb'"operationName"\s*:'),
    re.compile(rb'"start_time(?:_unix_nano)?"\s*:'),
)
_STEP = re.compile(r"(?:\w+\.)?train_step")
_MESSAGE = re.compile(r"megatron\.(?:p2p\.(?:send|recv)_(?:forward|backward)|grad_sync\.finish)")
_RANK_OF_INSTANCE = re.compile(r"-rank(\d{1,7})$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_NS = 2**62


@dataclass(frozen=True, slots=True)
class _Span:
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, object]
    """Those of the span, and of what emitted it."""


def telemetry_files(path: Path) -> list[Path]:
    """Return the files with spans at `path`: itself, or those of the folder; none where there are other files."""
    if path.is_file():
        files = [path]
    else:
        files = []
        with suppress(OSError):
            files = sorted((file for file in path.iterdir() if file.name.endswith(_SUFFIXES)), key=by_number)
    return files if files and all(_has_spans(file) for file in files) else []


def _has_spans(file: Path) -> bool:
    head = read_head(file, _HEAD_BYTES)
    return b'"traceEvents"' not in head and any(sign.search(head) for sign in _SIGNS)


def read_telemetry(files: Sequence[Path], *, place: str, naming: Naming | None = None) -> MeasuredStep | ObservedStep:
    """Return the step of median length in files of spans, of the ranks of one pipeline.

    Raises:
        InputError: spans that name no actions, or that do not fit together.
    """
    spans = [(span, file) for file in files for span in _spans(read_text(file), file=str(file))]
    namings = NAMINGS if naming is None else (naming,)
    known = next((way for way in namings if any(way.read(span.name) for span, _file in spans)), None)
    if known is None:
        names: dict[str, int] = defaultdict(int)
        for span, _file in spans:
            names[span.name] += 1
        raise InputError(
            rule=_(
                "must have spans of microbatches, such as megatron.microbatch.forward; it has {there}",
                there=names_there(names),
            ),
            place=place,
            remedy=_("run with MEGATRON_OTEL_SPAN_GROUPS=all and MEGATRON_OTEL_RANK_STRATEGY=all_ranks"),
        )
    by_rank: dict[tuple[int | None, str], list[_Span]] = defaultdict(list)
    for span, file in spans:
        rank = _rank(span.attributes)
        by_rank[rank, "" if rank is not None else str(file)].append(span)
    ranks = [_ranges(own, known, rank=rank, file=place) for (rank, _file), own in by_rank.items()]
    ranks = [rank for rank in ranks if rank.ranges]
    kept, notes = _one_pipeline(ranks, spans[0][0].attributes)
    return step_of_ranks(kept, told=Told(title=looked_up(known.title)), place=place, notes=notes)


def _ranges(spans: Sequence[_Span], naming: Naming, *, rank: int | None, file: str) -> RankRanges:
    """Return the actions of a rank."""
    ranges = [
        NamedRange(name, span.start_ns, span.end_ns, span.start_ns, span.end_ns - span.start_ns)
        for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))
        if (name := naming.read(span.name)) is not None
    ]
    steps = sorted((span.start_ns, span.end_ns) for span in spans if _STEP.fullmatch(span.name))
    messages = [(span.start_ns, span.end_ns) for span in spans if _MESSAGE.fullmatch(span.name)]
    is_of_pipeline = any((_number(span.attributes.get("dl.pipeline_parallel.size")) or 1) > 1 for span in spans)
    return without_nested(
        RankRanges(
            file=file,
            label="",
            rank=rank,
            ranges=ranges,
            steps=steps,
            communicated=Communicated(
                spans=union(np.array(messages, dtype=np.int64).reshape(-1, 2).T),
                exchange=no_spans(),
                sends_messages=bool(messages) or is_of_pipeline,
                is_recorded=bool(messages),
            ),
            has_device=False,
        )
    )


def _one_pipeline(ranks: Sequence[RankRanges], attributes: Mapping[str, object]) -> tuple[list[RankRanges], list[str]]:
    """Return the ranks of one pipeline among those of all devices, and what is left out.

    In Megatron-LM the pipeline is the outermost of the dimensions: its neighbours are world / pipeline ranks apart.
    """
    size, world = (_number(attributes.get(f"dl.{key}")) for key in ("pipeline_parallel.size", "world_size"))
    known = sorted(rank.rank for rank in ranks if rank.rank is not None)
    if not size or not world or world % size or len(known) != len(ranks) or len(ranks) <= size:
        return list(ranks), []
    apart = world // size
    first = known[0] % apart
    kept = [rank for rank in ranks if rank.rank is not None and rank.rank % apart == first]
    note = _(
        "Of {all} ranks, those of one pipeline are shown: {ranks}.",
        all=len(ranks),
        ranks=", ".join(str(rank.rank) for rank in kept),
    )
    return kept, [note]


def _rank(attributes: Mapping[str, object]) -> int | None:
    """Return the rank that emitted a span."""
    rank = _number(attributes.get("dl.rank"))
    if rank is None:
        match = _RANK_OF_INSTANCE.search(str(attributes.get("service.instance.id", "")))
        rank = int(match[1]) if match else None
    return rank


def _number(value: object) -> int | None:
    """Return a whole number, which OTLP writes as text."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else None


def _spans(text: str, *, file: str) -> Iterator[_Span]:
    """Give all spans of a file; raises InputError where one has no times."""
    for item in _objects(text):
        try:
            if "resourceSpans" in item:
                yield from _of_otlp(item)
            elif "data" in item:
                yield from _of_jaeger(item)
            elif "name" in item and ("start_time" in item or "start_time_unix_nano" in item):
                yield _of_line(item)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(
                value=str(error)[:80],
                rule=_("must have a name, a start and an end for every span"),
                place=file,
                remedy=_("export the spans again"),
            ) from None


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Give the JSON objects of a text that begin a line, whatever stands between them."""
    decoder = json.JSONDecoder()
    place = 0
    for start in re.finditer(r"^\s*\{", text, re.MULTILINE):
        if start.end() - 1 < place:
            continue
        try:
            value, place = decoder.raw_decode(text, start.end() - 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _of_otlp(item: dict[str, object]) -> Iterator[_Span]:
    for of_resource in item["resourceSpans"]:  # type: ignore[attr-defined]
        shared = _otlp_attributes(of_resource.get("resource", {}))
        for scope in of_resource.get("scopeSpans", of_resource.get("instrumentationLibrarySpans", [])):
            for span in scope["spans"]:
                yield _span(
                    span["name"], span["startTimeUnixNano"], span["endTimeUnixNano"], shared | _otlp_attributes(span)
                )


def _otlp_attributes(item: dict[str, object]) -> dict[str, object]:
    pairs = item.get("attributes", [])
    return {pair["key"]: next(iter(pair.get("value", {}).values()), None) for pair in pairs}  # type: ignore[attr-defined]


def _of_jaeger(item: dict[str, object]) -> Iterator[_Span]:
    for trace in item["data"]:  # type: ignore[attr-defined]
        processes = {key: _tags(process) for key, process in trace.get("processes", {}).items()}
        for span in trace["spans"]:
            start_ns = 1000 * int(span["startTime"])
            end_ns = start_ns + 1000 * int(span["duration"])
            yield _span(span["operationName"], start_ns, end_ns, processes.get(span.get("processID"), {}) | _tags(span))


def _tags(item: dict[str, object]) -> dict[str, object]:
    return {tag["key"]: tag.get("value") for tag in item.get("tags", [])}  # type: ignore[attr-defined]


def _of_line(item: dict[str, object]) -> _Span:
    shared = dict(item.get("resource", {}).get("attributes", {}))  # type: ignore[attr-defined]
    attributes = shared | dict(item.get("attributes") or {})  # type: ignore[call-overload]
    if "start_time_unix_nano" in item:
        return _span(item["name"], item["start_time_unix_nano"], item["end_time_unix_nano"], attributes)
    return _span(item["name"], _of_text(item["start_time"]), _of_text(item["end_time"]), attributes)


def _of_text(text: object) -> int:
    """Return a time in the form of ISO 8601 as ns since 1970."""
    if not isinstance(text, str):
        raise TypeError(str(text))
    since = datetime.fromisoformat(text).astimezone(UTC) - _EPOCH
    return 1000 * ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds)


def _span(name: object, start: object, end: object, attributes: Mapping[str, object]) -> _Span:
    start_ns, end_ns = int(str(start)), int(str(end))
    if not isinstance(name, str) or not 0 <= start_ns <= end_ns < _LATEST_NS:
        raise ValueError(f"{name}: {start}, {end}")
    return _Span(name, start_ns, end_ns, attributes)
