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

A kind's `…_time` is the WHOLE backward with the recomputation in it, as in the original, so it is never below the
backward without. Several HEAD entries add up, and so do TAIL entries; BODY entries follow one another in the order of
the file. Head and tail are never recomputed: the keys of recompute kinds are accepted there and mean nothing.
`pre_defined_layer`, `auto_partition_layer` and `model_name` are accepted and ignored: `nb_layer` says how many layers
there are, also where `auto_partition_layer` says otherwise.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json, read_text
from evenflow.model import BOTH, COMM, FULL, NONE, SELECT, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds

PLAIN_BACKWARD_RATIO = 2.0
"""Backward over forward where the file says nothing."""
MOST_LAYERS = 100_000


class _Keys(NamedTuple):
    """Where an entry holds one recompute kind."""

    memory: str
    time: str
    coef: str
    default_coef: float


KIND_KEYS: Mapping[str, _Keys] = {
    SELECT: _Keys("memory_select_rec", "select_rec_time", "select_rec_coef", 0.04),
    COMM: _Keys("memory_select_comm", "select_comm_time", "select_comm_coef", 0.125),
    BOTH: _Keys("memory_both_comm_select", "both_comm_select_time", "both_comm_select_coef", 0.165),
    FULL: _Keys("memory_recompute", "recompute_time", "recompute_coef", 0.5),
}
_TOP_KEYS = {"name", "layers_description", "stage_const_mem", "pre_defined_layer", "auto_partition_layer", "model_name"}
_ENTRY_KEYS = {
    "name", "type", "nb_layer", "time", "forward_time", "backward_time", "backward_coef",
    "memory_parameter", "memory_activation", "recompute_kinds", "model_name", "weight_time", "memory_until_weight",
    *(key for keys in KIND_KEYS.values() for key in (keys.memory, keys.time, keys.coef)),
}  # fmt: skip
_BODY_MEMORY = (
    "memory_parameter",
    "memory_activation",
    "memory_until_weight",
    *(keys.memory for keys in KIND_KEYS.values()),
)
_TYPES = ("HEAD", "BODY", "TAIL")


def plain_backward_ns(forward_ns: int) -> int:
    """Return the backward where only the forward is known."""
    return round(PLAIN_BACKWARD_RATIO * forward_ns)


def read_layer_file(path: Path | str) -> Network:
    """The network in a layer file. Raises `InputError` for a file that cannot be read or breaks a rule."""
    return parse_layer_file(read_text(path), place=str(path))


def parse_layer_file(text: str, *, place: str) -> Network:
    """The network in the text of a layer file; `place` names the file in messages.

    A layer offers a recompute kind when the kind's memory is there and above zero. Where no BODY entry has any memory,
    `Network.has_memory` is False and all memory is zero. An entry may name further kinds:
    ``"recompute_kinds": {"attention": {"memory": 410.0, "coef": 0.1}}`` (or ``"time"``, the whole backward).

    Raises:
        InputError: text that is not JSON, or a field that is missing, unknown, of a wrong type or out of range.
    """
    top = as_fields(load_json(text, file=place), file=place)
    top.check_known(_TOP_KEYS)
    entries = _entries(top)
    by_type = {kind: [entry for entry in entries if entry.values["type"] == kind] for kind in _TYPES}
    if not by_type["BODY"]:
        raise InputError(
            value=[entry.values["type"] for entry in entries],
            rule="at least one entry has the type BODY",
            place=top.place("layers_description"),
        )
    bodies = by_type["BODY"]
    has_memory = any(key in body for body in bodies for key in (*_BODY_MEMORY, "recompute_kinds"))
    constant_bytes = _bytes(top, "stage_const_mem")
    return Network(
        name=top.text("name") if "name" in top else Path(place).stem,
        runs=tuple(LayerRun(layer=_layer(body, has_memory), count=_count(body)) for body in bodies),
        head=_end_block(by_type["HEAD"], has_memory),
        tail=_end_block(by_type["TAIL"], has_memory),
        constant_bytes=constant_bytes if has_memory else 0,
        has_memory=has_memory,
    )


def _entries(top: Fields) -> list[Fields]:
    """The entries of `layers_description`, their keys and types checked."""
    described = top.required("layers_description")
    if not isinstance(described, list):
        raise InputError(value=described, rule="a list of entries", place=top.place("layers_description"))
    entries = [
        as_fields(value, file=top.file, path=f"layers_description[{index}]") for index, value in enumerate(described)
    ]
    for entry in entries:
        entry.check_known(_ENTRY_KEYS)
        entry.text("name")
        if entry.text("type") not in _TYPES:
            raise InputError(value=entry.values["type"], rule="HEAD, BODY or TAIL", place=entry.place("type"))
    return entries


def _layer(entry: Fields, has_memory: bool) -> Layer:
    forward_ms, backward_ms = _times(entry)
    forward_key = "forward_time" if "forward_time" in entry else "time"
    for key, time_ms in ((forward_key, forward_ms), ("backward_time", backward_ms)):
        if nanoseconds_from_milliseconds(time_ms) < 1:
            raise InputError(
                value=time_ms, rule="a body layer takes a nanosecond or more, in milliseconds", place=entry.place(key)
            )
    if has_memory:
        _require_memory(entry)
    plain = Mode(
        activation_bytes=_bytes(entry, "memory_activation"), backward_ns=nanoseconds_from_milliseconds(backward_ms)
    )
    return Layer(
        name=entry.text("name"),
        forward_ns=nanoseconds_from_milliseconds(forward_ms),
        parameter_bytes=_bytes(entry, "memory_parameter"),
        modes={NONE: plain, **_kinds(entry, backward_ms)},
        stated_weight_ns=_weight_ns(entry, backward_ms),
        stated_weight_bytes=_weight_bytes(entry),
    )


def _weight_ns(entry: Fields, backward_ms: float) -> int | None:
    """The stated time of the weight gradient; None where the entry has none."""
    if "weight_time" not in entry:
        return None
    weight_ms = entry.number("weight_time")
    if weight_ms > backward_ms:
        raise InputError(
            value=weight_ms,
            rule=f"the weight gradient is a part of the backward without recomputation, {backward_ms:g}",
            place=entry.place("weight_time"),
        )
    return nanoseconds_from_milliseconds(weight_ms)


def _weight_bytes(entry: Fields) -> int | None:
    return _bytes(entry, "memory_until_weight") if "memory_until_weight" in entry else None


def _require_memory(entry: Fields) -> None:
    """Memory is given whole or not at all, and nothing kept is no activation but a missing measurement."""
    for key in ("memory_parameter", "memory_activation"):
        if key not in entry:
            raise InputError(
                value=sorted(entry.values),
                rule=f"where one BODY entry has memory, every BODY entry has {key!r}",
                place=entry.place(key),
                remedy="add it, or leave all memory out of the BODY entries to plan without a limit",
            )
    entry.number("memory_activation", above_zero=True)


def _times(entry: Fields) -> tuple[float, float]:
    """Forward and plain backward in milliseconds."""
    # Both are checked where both are there, though one wins.
    given = {key: entry.number(key) for key in ("time", "forward_time", "backward_time") if key in entry}
    forward_ms = given["forward_time"] if "forward_time" in given else entry.number("time")
    coef = entry.number("backward_coef") if "backward_coef" in entry else 0.0
    return forward_ms, given.get("backward_time", (1 + coef) * PLAIN_BACKWARD_RATIO * forward_ms)


def _kinds(entry: Fields, plain_ms: float) -> dict[str, Mode]:
    """The recompute kinds that the entry offers."""
    modes = {}
    for kind, keys in KIND_KEYS.items():
        mode = _mode(entry, keys, plain_ms)
        if mode.activation_bytes > 0:
            modes[kind] = mode
    if "recompute_kinds" in entry:
        named = entry.inner("recompute_kinds")
        for kind in named.values:
            if not kind.isidentifier() or kind in KIND_KEYS or kind == NONE:
                raise InputError(
                    value=kind,
                    rule=f"the name of a further kind is an identifier other than {', '.join((NONE, *KIND_KEYS))}",
                    place=named.place(),
                )
            fields = named.inner(kind)
            fields.check_known(("memory", "time", "coef"))
            if ("time" in fields) == ("coef" in fields):
                raise InputError(value=sorted(fields.values), rule="one of 'time' and 'coef'", place=fields.place())
            fields.number("memory", above_zero=True)
            modes[kind] = _mode(fields, _Keys("memory", "time", "coef", 0.0), plain_ms)
    return modes


def _mode(fields: Fields, keys: _Keys, plain_ms: float) -> Mode:
    """One kind; its activation is zero where the entry does not offer it."""
    coef = fields.number(keys.coef) if keys.coef in fields else keys.default_coef
    backward_ms = (1 + coef) * plain_ms
    if keys.time in fields:
        backward_ms = fields.number(keys.time)
        if backward_ms < plain_ms:
            raise InputError(
                value=backward_ms,
                rule=f"the whole backward with the recomputation in it, so at least the backward without, {plain_ms:g}",
                place=fields.place(keys.time),
                remedy="add the backward time to it, or use " + keys.coef,
            )
    return Mode(activation_bytes=_bytes(fields, keys.memory), backward_ns=nanoseconds_from_milliseconds(backward_ms))


def _end_block(entries: list[Fields], has_memory: bool) -> EndBlock:
    """The sum of all HEAD or all TAIL entries."""
    blocks: list[tuple[int, EndBlock]] = []
    for entry in entries:
        for keys in KIND_KEYS.values():
            _mode(entry, keys, 0.0)
        if "recompute_kinds" in entry:
            raise InputError(
                value=entry.values["recompute_kinds"],
                rule="only BODY layers recompute",
                place=entry.place("recompute_kinds"),
            )
        count = _count(entry)
        forward_ms, backward_ms = _times(entry)
        one = EndBlock(
            forward_ns=nanoseconds_from_milliseconds(forward_ms),
            backward_ns=nanoseconds_from_milliseconds(backward_ms),
            parameter_bytes=_bytes(entry, "memory_parameter") if has_memory else 0,
            activation_bytes=_bytes(entry, "memory_activation") if has_memory else 0,
            stated_weight_ns=_weight_ns(entry, backward_ms),
            stated_weight_bytes=_weight_bytes(entry) if has_memory else None,
        )
        blocks.append((count, one))

    # What no entry states stays to be derived from the sums.
    states_time = any(block.stated_weight_ns is not None for _, block in blocks)
    states_memory = any(block.stated_weight_bytes is not None for _, block in blocks)
    return EndBlock(
        name=" + ".join(entry.text("name") for entry in entries),
        forward_ns=sum(count * block.forward_ns for count, block in blocks),
        backward_ns=sum(count * block.backward_ns for count, block in blocks),
        parameter_bytes=sum(count * block.parameter_bytes for count, block in blocks),
        activation_bytes=sum(count * block.activation_bytes for count, block in blocks),
        stated_weight_ns=sum(count * block.weight_ns for count, block in blocks) if states_time else None,
        stated_weight_bytes=sum(count * block.weight_bytes for count, block in blocks) if states_memory else None,
    )


def _count(entry: Fields) -> int:
    return entry.integer("nb_layer", maximum=MOST_LAYERS)


def _bytes(fields: Fields, key: str) -> int:
    """Bytes of a field in megabytes; zero where it is absent."""
    return bytes_from_megabytes(fields.number(key)) if key in fields else 0
