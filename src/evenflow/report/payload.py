"""What the page's script reads: a head as JSON, the columns of all timelines deflated, and the plans.

The script finds them by the names of their elements in `page`; `web/src/data.ts` has the same form as types.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from evenflow.draw.palette import page_palette
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import spoken
from evenflow.report.columns import columns_of
from evenflow.report.page_sentences import page_sentences
from evenflow.report.shown import Shown
from evenflow.schedule import Op
from evenflow.simulate import IdleTime

VERSION = 1
"""Version of the form of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The data of a page as text."""

    head: str
    """A JSON object."""
    data: str
    """The columns one after the other, deflated without a header, in base64."""
    plans: tuple[str, ...]
    """Plan files."""


def payload_of(shown: Sequence[Shown], *, title: str, vocabulary: Vocabulary, made_by: str) -> Payload:
    """Return the data of a page; equal timelines give equal text."""
    stream = bytearray()
    timelines: list[Mapping[str, object]] = []
    plans: list[str] = []
    for timeline in shown:
        places: dict[str, dict[str, int]] = {}
        for name, column in columns_of(timeline).items():
            places[name] = {"offset": len(stream), "bytes": len(column)}
            stream += column
        plan = None if timeline.plan is None else len(plans)
        timelines.append({**_timeline_fields(timeline), "columns": places, "plan": plan})
        if timeline.plan is not None:
            plans.append(timeline.plan)
    most = max(
        (size for timeline in shown for size in (*(timeline.peak_bytes or ()), timeline.limit_bytes or 0)), default=0
    )
    size, name = vocabulary.memory_unit(most)
    head = {
        "version": VERSION,
        "title": title,
        "made_by": made_by,
        "language": spoken(),
        "words": page_sentences(),
        "unit": {"bytes": size, "name": name},
        "rank_word": vocabulary.word,
        "palette": page_palette(max((timeline.schedule.num_chunks for timeline in shown), default=1)),
        "timelines": timelines,
    }
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = packer.compress(bytes(stream)) + packer.flush()
    return Payload(head=_json(head), data=base64.b64encode(deflated).decode(), plans=tuple(plans))


def _timeline_fields(shown: Shown) -> dict[str, object]:
    """Return all of a timeline but its columns."""
    schedule, memory = shown.schedule, shown.memory
    return {
        "name": shown.name,
        "kind": shown.kind.value,
        "certificate": shown.certificate,
        "figures": shown.figures,
        "notes": shown.notes,
        "schedule": schedule.name,
        "ranks": schedule.num_ranks,
        "chunks": schedule.num_chunks,
        "microbatches": schedule.num_microbatches,
        "splits": schedule.sequence_splits,
        "stages": schedule.num_stages,
        "stage_rank": schedule.stage_ranks,
        "stage_chunk": schedule.stage_chunks.tolist(),
        "ops": [op.name for op in Op],
        "stage_layers": shown.stage_layers,
        "makespan_ns": shown.makespan_ns,
        "step_ns": shown.step_ns,
        "work": asdict(shown.work),
        "limit_bytes": shown.limit_bytes,
        "static_bytes": None if memory is None else memory.static_bytes,
        "working_bytes": None if memory is None else memory.working_bytes,
        "peak_bytes": shown.peak_bytes,
        "idle": idle_fields(shown),
        **({} if shown.exposed_ns is None else {"exposed_ns": shown.exposed_ns}),
        "path": [asdict(share) for share in shown.path],
        "busy_ns": shown.busy_ns.tolist(),
        "actions": schedule.num_actions,
        "copies": None if shown.copies is None else [len(copies.actions) for copies in shown.copies],
        "encoders": [len(parts.ranks) for parts in shown.encoders],
        "rank_starts": schedule.rank_starts,
        "decision": [asdict(item) for item in shown.decision],
        "curve": [asdict(point) for point in shown.curve],
        "run": [asdict(item) for item in shown.run],
        **({} if shown.what_if is None else {"what_if": shown.what_if}),
    }


def idle_fields(shown: Shown) -> list[dict[str, int]] | None:
    """Return the idle time of every rank by cause; of a measured step, its communication and its waiting."""
    waiting = shown.rank_waiting_ns
    if waiting is not None:
        totals = (shown.makespan_ns - shown.busy_ns).tolist()
        return [
            {"total_ns": total, "communication_ns": total - own, "waiting_ns": own}
            for total, own in zip(totals, waiting.tolist(), strict=True)
        ]
    return None if shown.idle is None else [_predicted_fields(shown, item) for item in shown.idle]


def _predicted_fields(shown: Shown, idle: IdleTime) -> dict[str, int]:
    """Return the idle time of a rank by cause; that of copies only where anything moves."""
    fields = asdict(idle)
    if shown.copies is None:
        del fields["host_copies_ns"]
    return fields


def _json(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
