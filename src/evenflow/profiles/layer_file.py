"""The layer file: a model as one JSON object, as the [SAPP guide] describes it and SAPP's balancer reads it.

    {"name": …, "stage_const_mem": MB,
     "layers_description": [
       {"type": "HEAD", "name": …, "nb_layer": 1, "time": ms, "memory_parameter": MB},
       {"type": "BODY", "name": …, "nb_layer": 80, "time": ms, "memory_parameter": MB, "memory_activation": MB,
        "memory_recompute": MB, …},
       {"type": "TAIL", …}]}

Times are milliseconds, memory is megabytes (2**20 bytes), each of ONE layer for ONE microbatch.

    forward                = `forward_time`, else `time`
    backward               = `backward_time`, else (1 + `backward_coef`) * 2 * forward; the coefficient is 0 by default
    weight gradient        = `weight_time`, else half of the backward; a part of it, which some schedules run on its own
    backward under a kind  = its `…_time`, else (1 + its `…_coef`) * backward
    working memory         = `memory_working`, else 0; under a kind its `working_…`, else the same
    frozen                 = `frozen`: true: the layer has no backward and keeps nothing for one: it takes and holds the
                             same under every recompute kind
    halves                 = `halves`: parts of the forward and of the plain backward (see `model.halves`)
    message                = `boundary_bytes`: BYTES that a stage sends on which ends with the layer, else --boundary

A kind's `…_time` is the WHOLE backward with the recomputation in it, as in the original, so it is never below the
backward without. Several HEAD entries add up, and so do TAIL entries (of working memory the
largest counts); BODY entries follow one another in the order of
the file. Head and tail are never recomputed: the keys of recompute kinds are accepted there and mean nothing.
`pre_defined_layer`, `auto_partition_layer`, `model_name` and `written_by` are accepted and ignored: `nb_layer` says how
many layers there are, also where `auto_partition_layer` says otherwise.
"""

import json
from collections.abc import Collection
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, is_integer, load_json, read_text
from evenflow.language import _
from evenflow.model import (
    NONE,
    EncoderWork,
    EndBlock,
    HostLink,
    Layer,
    LayerRun,
    Network,
    RankTraits,
    cells,
    with_segments,
)
from evenflow.model.peak_error import PeakError
from evenflow.profiles.layer_entry import (
    BODY_MEMORY,
    BOUNDARY_KEY,
    ENTRY_KEYS,
    FROZEN_KEY,
    HALVES_KEY,
    KIND_KEYS,
    OFFLOADED_KEY,
    bytes_of,
    end_block,
    halves_entry,
)
from evenflow.profiles.layer_rows import body_fields, entries_of_body, runs_of_body
from evenflow.profiles.model_configuration import refuse_configuration
from evenflow.ranges import (
    AHEAD,
    BEHIND,
    BUFFERS,
    BYTES_PER_S,
    MILLISECONDS,
    MODEL_SIZE,
    PAIR_SLOWDOWN,
    PEAKS,
    RANK_SPEED,
    RANKS,
    SHARERS,
)
from evenflow.units import megabytes, milliseconds, nanoseconds_from_milliseconds

ADAPTER_KEY = "adapter_rank"
ENCODER_WORK_KEY = "encoder_work"
LINK_KEY = "host_link"
SLOWDOWN_KEY = "pair_slowdown"
SEGMENTS_KEY = "recompute_segments"
_TOP_KEYS = {
    "name", "layers_description", "stage_const_mem",
    "peak_error", "ranks", ADAPTER_KEY, ENCODER_WORK_KEY, LINK_KEY, SEGMENTS_KEY, SLOWDOWN_KEY,
    "pre_defined_layer", "auto_partition_layer", "model_name", "written_by",
}  # fmt: skip
_TYPES = ("HEAD", "BODY", "TAIL")


def read_layer_file(path: Path | str) -> Network:
    """Return the network in a layer file. Raises `InputError` for a file that cannot be read or breaks a rule."""
    return parse_layer_file(read_text(path), place=str(path))


def parse_layer_file(text: str, *, place: str) -> Network:
    """Return the network in the text of a layer file, as `network_of` does; `place` names the file in messages.

    Raises:
        InputError: text that is not JSON, or a field that is missing, unknown, of a wrong type or out of range.
    """
    return network_of(as_fields(load_json(text, file=place), file=place))


def network_of(top: Fields) -> Network:
    """Return the network in the object of a layer file.

    A layer offers a recompute kind when the kind's memory is there and above zero. Where no BODY entry has any memory,
    `Network.has_memory` is False and all memory is zero. An entry may name further kinds:
    ``"recompute_kinds": {"attention": {"memory": 410.0, "coef": 0.1}}`` (or ``"time"``, the whole backward).

    Raises:
        InputError: a field that is missing, unknown, of a wrong type or out of range.
    """
    refuse_configuration(top)
    top.check_known(_TOP_KEYS)
    heads, bodies, tails = _entries(top)
    has_memory = any(key in entry for body in bodies for entry in entries_of_body(body) for key in BODY_MEMORY)
    constant_bytes = bytes_of(top, "stage_const_mem")
    network = Network(
        name=top.text("name") if "name" in top else Path(top.file).stem,
        runs=_with_every_kind([run for body in bodies for run in runs_of_body(body, has_memory)]),
        head=end_block(heads, has_memory),
        tail=end_block(tails, has_memory),
        constant_bytes=constant_bytes if has_memory else 0,
        has_memory=has_memory,
        peak_error=_peak_error(top.inner("peak_error")) if has_memory and "peak_error" in top else None,
        ranks=tuple(rank for entry in top.objects("ranks") for rank in _ranks(entry)) if "ranks" in top else (),
        host_link=_host_link(top.inner(LINK_KEY)) if LINK_KEY in top else None,
        encoder_work=_encoder_work(top.inner(ENCODER_WORK_KEY)) if ENCODER_WORK_KEY in top else None,
        adapter_rank=top.integer(ADAPTER_KEY, MODEL_SIZE) if ADAPTER_KEY in top else 0,
        pair_slowdown=top.number(SLOWDOWN_KEY, PAIR_SLOWDOWN) if SLOWDOWN_KEY in top else 1.0,
    )
    if SEGMENTS_KEY not in top:
        return network
    lengths = top.required(SEGMENTS_KEY)
    if not isinstance(lengths, list) or not all(map(is_integer, lengths)):
        raise top.error(SEGMENTS_KEY, _("must be a list of integers: layers of a segment, or 0 for all of a stage"))
    with top.at():
        return with_segments(network, lengths)


def _with_every_kind(runs: list[LayerRun]) -> tuple[LayerRun, ...]:
    """Return the runs, where frozen layers offer every recompute kind of the others: they have nothing to recompute."""
    kinds = dict.fromkeys(kind for run in runs if run.layer.backward_ns for kind in run.layer.modes)

    def offering(layer: Layer) -> Layer:
        plain = layer.modes[NONE]
        return layer if layer.backward_ns else replace(layer, modes={NONE: plain, **dict.fromkeys(kinds, plain)})

    return tuple(LayerRun(layer=offering(run.layer), count=run.count) for run in runs)


def _ranks(entry: Fields) -> list[RankTraits]:
    """Return the ranks of an entry of ``ranks``."""
    entry.check_known(("count", "speed", "memory_reserved", "link_delay", "host_sharers"))
    rank = RankTraits(
        speed=entry.number("speed", RANK_SPEED) if "speed" in entry else 1.0,
        reserved_bytes=bytes_of(entry, "memory_reserved"),
        link_ns=nanoseconds_from_milliseconds(entry.number("link_delay", MILLISECONDS)) if "link_delay" in entry else 0,
        host_sharers=entry.integer("host_sharers", SHARERS) if "host_sharers" in entry else None,
    )
    return [rank] * (entry.integer("count", RANKS) if "count" in entry else 1)


def _host_link(fields: Fields) -> HostLink:
    """Return the link to the host's memory, or to that of ranks that keep something for others."""
    known = ("bytes_per_s", "one_engine", "sharers", "buffers", "ahead", "behind", "keepers", "keeper_bytes_per_s")
    fields.check_known(known)
    keepers = fields.values.get("keepers", [])
    if not isinstance(keepers, list) or not all(rank is None or is_integer(rank) for rank in keepers):
        raise fields.error("keepers", _("must be a list with a rank, or null for the host, for each rank"))
    ahead = fields.values.get("ahead")
    rows = ahead if isinstance(ahead, list) else []
    if not all(isinstance(row, list) and row and all(map(is_integer, row)) for row in rows):
        raise fields.error("ahead", _("must be an integer, or a list of rows with one for each rank"))
    link = HostLink(
        bytes_per_s=fields.integer("bytes_per_s", BYTES_PER_S),
        one_engine=fields.flag("one_engine") if "one_engine" in fields else False,
        sharers=fields.integer("sharers", SHARERS) if "sharers" in fields else 1,
        buffers=fields.integer("buffers", BUFFERS) if fields.values.get("buffers") is not None else None,
        ahead=fields.integer("ahead", AHEAD) if "ahead" in fields and not rows else 1,
        behind=fields.integer("behind", BEHIND) if "behind" in fields else 1,
        keeper_bytes_per_s=fields.integer("keeper_bytes_per_s", BYTES_PER_S)
        if fields.values.get("keeper_bytes_per_s") is not None
        else None,
    )
    with fields.at("ahead"):
        link = replace(link, cell_ahead=cells(rows))
    with fields.at("keepers"):
        return replace(link, keepers=tuple(keepers))


def _encoder_work(fields: Fields) -> EncoderWork:
    """Return what encoders do beside the pipeline."""
    fields.check_known(("parts", "time", "backward_time", "message", "sum", "in_bubbles"))

    def time_ns(key: str) -> int:
        return nanoseconds_from_milliseconds(fields.number(key, MILLISECONDS)) if key in fields else 0

    with fields.at():
        return EncoderWork(
            parts=fields.integer("parts", MODEL_SIZE),
            forward_ns=nanoseconds_from_milliseconds(fields.number("time", MILLISECONDS)),
            backward_ns=time_ns("backward_time"),
            message_ns=time_ns("message"),
            summed_ns=time_ns("sum"),
            in_bubbles=fields.flag("in_bubbles"),
        )


def _encoder_work_entry(work: EncoderWork) -> dict[str, object]:
    """Return the object that reads back as `work`."""
    return {
        "parts": work.parts,
        "time": milliseconds(work.forward_ns),
        "backward_time": milliseconds(work.backward_ns),
        "message": milliseconds(work.message_ns),
        "sum": milliseconds(work.summed_ns),
        "in_bubbles": work.in_bubbles,
    }


def _peak_error(fields: Fields) -> PeakError:
    """Return how far peaks may be off, by the ``peak_error`` of a layer file."""
    fields.check_known(("standard_error_mb", "degrees_of_freedom", "terms", "covariance"))
    terms = fields.texts("terms")
    rows = fields.required("covariance")
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise fields.error("covariance", _("must be a list of lists of numbers"))
    with fields.at():
        return PeakError(
            standard_error_bytes=bytes_of(fields, "standard_error_mb"),
            degrees_of_freedom=fields.integer("degrees_of_freedom", PEAKS),
            terms=terms,
            covariance=tuple(tuple(map(float, row)) for row in rows),
        )


def _is_row(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(number, float) or is_integer(number) for number in value)


def _entries(top: Fields) -> list[list[Fields]]:
    """Return the HEAD, BODY and TAIL entries of `layers_description`, their keys and types checked."""
    entries = top.objects("layers_description")
    for entry in entries:
        if "layers" not in entry:
            entry.check_known(ENTRY_KEYS)
        entry.text("name")
        if entry.text("type") not in _TYPES:
            raise entry.error("type", _("must be HEAD, BODY or TAIL"))
    by_type = [[entry for entry in entries if entry.values["type"] == kind] for kind in _TYPES]
    for entry in (*by_type[0], *by_type[2]):
        entry.check_known(ENTRY_KEYS)
    if not by_type[1]:
        raise InputError(
            value=[entry.values["type"] for entry in entries],
            rule=_("must have at least one entry of the type BODY"),
            place=top.place("layers_description"),
        )
    return by_type


def format_layer_file(network: Network) -> str:
    """Return a layer file that reads back as `network`, as `layer_file_fields` says."""
    return json.dumps(layer_file_fields(network), indent=2, ensure_ascii=False) + "\n"


def layer_file_fields(network: Network) -> dict[str, object]:
    """Return the object of a layer file that reads back as `network`: times and memory explicit, no coefficients.

    The inverse holds where every kind's activation is above zero and no recompute time negative, as in every network
    that a layer file can give.
    """
    entries = [
        *([_entry("HEAD", network.head, network.has_memory)] if network.head != EndBlock() else []),
        *body_fields(network.runs, lambda run: _body_entry(run, network.has_memory, leaving_out=network.segments)),
        *([_entry("TAIL", network.tail, network.has_memory)] if network.tail != EndBlock() else []),
    ]
    top: dict[str, object] = {"name": network.name}
    if network.has_memory:
        top["stage_const_mem"] = megabytes(network.constant_bytes)
    if network.has_memory and network.peak_error is not None:
        top["peak_error"] = _error_entry(network.peak_error)
    if network.ranks:
        top["ranks"] = [_rank_entry(rank, len(list(equal))) for rank, equal in groupby(network.ranks)]
    if network.host_link is not None:
        link = network.host_link
        top[LINK_KEY] = {
            "bytes_per_s": link.bytes_per_s,
            "one_engine": link.one_engine,
            "sharers": link.sharers,
            **({} if link.buffers is None else {"buffers": link.buffers}),
            "ahead": link.ahead_entry,
            **({} if link.behind == 1 else {"behind": link.behind}),
            **({"keepers": list(link.keepers)} if link.keepers else {}),
            **({} if link.keeper_bytes_per_s is None else {"keeper_bytes_per_s": link.keeper_bytes_per_s}),
        }
    if network.segments:
        top[SEGMENTS_KEY] = list(network.segments.values())
    if network.pair_slowdown != 1:
        top[SLOWDOWN_KEY] = network.pair_slowdown
    if network.encoder_work is not None:
        top[ENCODER_WORK_KEY] = _encoder_work_entry(network.encoder_work)
    if network.adapter_rank:
        top[ADAPTER_KEY] = network.adapter_rank
    return {**top, "layers_description": entries}


def _rank_entry(rank: RankTraits, count: int) -> dict[str, object]:
    reserved = {"memory_reserved": megabytes(rank.reserved_bytes)} if rank.reserved_bytes else {}
    link = {"link_delay": milliseconds(rank.link_ns)} if rank.link_ns else {}
    host = {} if rank.host_sharers is None else {"host_sharers": rank.host_sharers}
    return {"count": count, "speed": rank.speed, **reserved, **link, **host}


def _body_entry(run: LayerRun, has_memory: bool, *, leaving_out: Collection[str]) -> dict[str, object]:
    plain = run.layer.modes[NONE]
    entry = _entry("BODY", run.layer, has_memory, count=run.count)
    if not run.layer.backward_ns:
        kept = {key: value for key, value in entry.items() if key not in ("backward_time", "memory_activation")}
        return {**kept, FROZEN_KEY: True}
    named: dict[str, dict[str, float]] = {}
    for kind, mode in run.layer.modes.items() if has_memory else ():
        memory, time = megabytes(mode.activation_bytes), milliseconds(mode.backward_ns)
        differs = mode.working_bytes != plain.working_bytes
        if kind in KIND_KEYS:
            keys = KIND_KEYS[kind]
            entry |= {keys.memory: memory, keys.time: time}
            entry |= {keys.working: megabytes(mode.working_bytes)} if differs else {}
        elif kind != NONE and kind not in leaving_out:
            named[kind] = {"memory": memory, "time": time}
            named[kind] |= {OFFLOADED_KEY: megabytes(mode.offloaded_bytes)} if mode.offloaded_bytes else {}
            named[kind] |= {"working": megabytes(mode.working_bytes)} if differs else {}
    if run.layer.halves is not None:
        written = {kind: mode for kind, mode in run.layer.modes.items() if has_memory and kind not in leaving_out}
        entry[HALVES_KEY] = halves_entry(run.layer.halves, written)
    return {**entry, "recompute_kinds": named} if named else entry


def _error_entry(error: PeakError) -> dict[str, object]:
    return {
        "standard_error_mb": megabytes(error.standard_error_bytes),
        "degrees_of_freedom": error.degrees_of_freedom,
        "terms": list(error.terms),
        "covariance": [list(row) for row in error.covariance],
    }


def _entry(kind: str, part: Layer | EndBlock, has_memory: bool, *, count: int = 1) -> dict[str, object]:
    """Return what entries of all types have."""
    kept = part.modes[NONE] if isinstance(part, Layer) else part
    entry: dict[str, object] = {
        "name": part.name or kind,
        "type": kind,
        "nb_layer": count,
        "time": milliseconds(part.forward_ns),
        "backward_time": milliseconds(part.backward_ns),
    }
    if part.stated_weight_ns is not None:
        entry["weight_time"] = milliseconds(part.stated_weight_ns)
    if part.boundary_bytes is not None:
        entry[BOUNDARY_KEY] = part.boundary_bytes
    if has_memory:
        entry["memory_parameter"] = megabytes(part.parameter_bytes)
        entry["memory_activation"] = megabytes(kept.activation_bytes)
        if part.stated_until_weight_bytes is not None:
            entry["memory_until_weight"] = megabytes(part.stated_until_weight_bytes)
        if kept.working_bytes:
            entry["memory_working"] = megabytes(kept.working_bytes)
    return entry
