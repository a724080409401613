"""One entry of a layer file: its times, its memory and the recompute kinds it offers (see `layer_file`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, NONE, SELECT, EndBlock, Halves, Layer, Mode, PassHalves, is_kind_name
from evenflow.ranges import COEFFICIENT, LAYERS, MEGABYTES, MEMORY_BYTES, MILLISECONDS
from evenflow.units import bytes_from_megabytes, megabytes, milliseconds, nanoseconds_from_milliseconds

PLAIN_BACKWARD_RATIO = 2.0
"""Backward over forward where the file says nothing."""


class _Keys(NamedTuple):
    """Keys under which an entry describes one recompute kind."""

    memory: str
    working: str
    time: str
    coef: str
    default_coef: float


KIND_KEYS: Mapping[str, _Keys] = {
    SELECT: _Keys("memory_select_rec", "working_select_rec", "select_rec_time", "select_rec_coef", 0.04),
    COMM: _Keys("memory_select_comm", "working_select_comm", "select_comm_time", "select_comm_coef", 0.125),
    BOTH: _Keys(
        "memory_both_comm_select", "working_both_comm_select", "both_comm_select_time", "both_comm_select_coef", 0.165
    ),
    FULL: _Keys("memory_recompute", "working_recompute", "recompute_time", "recompute_coef", 0.5),
}
RULE_KEYS = ("cut_before", "stage_rules")
"""Keys that say where a stage may begin and which stages may hold the layers (see `layer_rows`)."""
MTP_KEY = "mtp"
"""Key that says whether the layers predict further tokens."""
BOUNDARY_KEY = "boundary_bytes"
"""Key that says how many bytes a stage sends on which ends with the layer."""
ENCODER_KEY = "encoder"
"""Key that says whether the layers are of an encoder in front of the decoder."""
CONTINUES_KEY = "continues_block"
"""Key that says whether a layer is of the same block as the layer before it."""
FROZEN_KEY = "frozen"
"""Key that says whether the layers are not trained, nor is anything before them: they have no backward."""
HALVES_KEY = "halves"
"""Key of the parts of both passes, and of the exchanges between them."""
MLP_MEMORY_KEY = "mlp_memory"
"""Key beside these parts that says how much the MLP keeps under each recompute kind."""
OFFLOADED_KEY = "offloaded"
"""Key of a kind that says how much of what a layer keeps the host has."""
ENTRY_KEYS = {
    *RULE_KEYS,
    MTP_KEY,
    ENCODER_KEY,
    CONTINUES_KEY,
    FROZEN_KEY,
    BOUNDARY_KEY,
    HALVES_KEY,
    "name", "type", "nb_layer", "time", "forward_time", "backward_time", "backward_coef",
    "memory_parameter", "memory_activation", "recompute_kinds", "model_name", "weight_time", "memory_until_weight",
    "memory_working",
    *(key for keys in KIND_KEYS.values() for key in (keys.memory, keys.working, keys.time, keys.coef)),
}  # fmt: skip
BODY_MEMORY = (
    "memory_parameter",
    "memory_activation",
    "memory_until_weight",
    "memory_working",
    *(key for keys in KIND_KEYS.values() for key in (keys.memory, keys.working)),
    "recompute_kinds",
)
"""Keys of which one is enough for a BODY entry to have memory."""


def plain_backward_ns(forward_ns: int) -> int:
    """Return the backward's time that is assumed where only the forward is known."""
    return round(PLAIN_BACKWARD_RATIO * forward_ns)


def body_layer(entry: Fields, has_memory: bool) -> Layer:
    """Return the layer of a BODY entry; in a file with memory, the entry must have it too."""
    if _flag(entry, FROZEN_KEY):
        return _frozen_layer(entry)
    forward_ms, backward_ms = _times(entry)
    forward_key = "forward_time" if "forward_time" in entry else "time"
    for key, time_ms in ((forward_key, forward_ms), ("backward_time", backward_ms)):
        if nanoseconds_from_milliseconds(time_ms) < 1:
            raise entry.error(key, _("must be a nanosecond or more, in milliseconds"))
    if has_memory:
        _require_memory(entry)
    plain = Mode(
        activation_bytes=bytes_of(entry, "memory_activation"),
        backward_ns=nanoseconds_from_milliseconds(backward_ms),
        working_bytes=bytes_of(entry, "memory_working"),
    )
    modes = {NONE: plain, **_kinds(entry, backward_ms, plain.working_bytes)}
    return Layer(
        name=entry.text("name"),
        forward_ns=nanoseconds_from_milliseconds(forward_ms),
        parameter_bytes=bytes_of(entry, "memory_parameter"),
        modes=_with_mlp(entry.inner(HALVES_KEY), modes) if HALVES_KEY in entry else modes,
        stated_weight_ns=_weight_ns(entry, backward_ms),
        stated_until_weight_bytes=_until_weight_bytes(entry),
        is_mtp=_flag(entry, MTP_KEY),
        is_encoder=_flag(entry, ENCODER_KEY),
        continues_block=_flag(entry, CONTINUES_KEY),
        boundary_bytes=_boundary_bytes(entry),
        halves=_halves(entry.inner(HALVES_KEY)) if HALVES_KEY in entry else None,
    )


def _halves(fields: Fields) -> Halves:
    """Return the parts of both passes of a layer."""
    fields.check_known(("forward", "backward", MLP_MEMORY_KEY))
    parts = ("dispatch", "mlp", "combine")
    return Halves(
        forward=_pass_halves(fields.inner("forward"), parts),
        backward=_pass_halves(fields.inner("backward"), (*parts, "mlp_weight")),
    )


def _with_mlp(fields: Fields, modes: Mapping[str, Mode]) -> dict[str, Mode]:
    """Return the modes with what the MLP keeps under each kind, as far as the parts of a layer tell it."""
    if MLP_MEMORY_KEY not in fields:
        return dict(modes)
    memory = fields.inner(MLP_MEMORY_KEY)
    memory.check_known(tuple(modes))
    for kind in memory.values:
        if bytes_of(memory, kind) > modes[kind].activation_bytes:
            most = megabytes(modes[kind].activation_bytes)
            raise memory.error(kind, _("must be a part of the {most:g} MB that the layer keeps", most=most))
    return {kind: replace(mode, mlp_bytes=bytes_of(memory, kind)) for kind, mode in modes.items()}


def _pass_halves(fields: Fields, names: Sequence[str]) -> PassHalves:
    """Return the parts of one pass; those that are left out take no time."""
    fields.check_known(names)
    parts = {name: fields.number(name, MILLISECONDS) if name in fields else 0.0 for name in names}
    return PassHalves(**{f"{name}_ns": nanoseconds_from_milliseconds(part_ms) for name, part_ms in parts.items()})


def halves_entry(halves: Halves, modes: Mapping[str, Mode] | None = None) -> dict[str, object]:
    """Return the object that reads back as `halves`, and as what the MLP keeps under each of `modes`."""
    kept = {kind: megabytes(mode.mlp_bytes) for kind, mode in (modes or {}).items() if mode.mlp_bytes}
    passes: dict[str, object] = {
        name: {
            "dispatch": milliseconds(half.dispatch_ns),
            "mlp": milliseconds(half.mlp_ns),
            "combine": milliseconds(half.combine_ns),
            **({"mlp_weight": milliseconds(half.mlp_weight_ns)} if half.mlp_weight_ns else {}),
        }
        for name, half in (("forward", halves.forward), ("backward", halves.backward))
    }
    return {**passes, **({MLP_MEMORY_KEY: kept} if kept else {})}


def _frozen_layer(entry: Fields) -> Layer:
    """Return a layer that is not trained: it has a forward and parameters, and keeps nothing for a backward."""
    allowed = {"name", "type", "nb_layer", "time", "forward_time", "memory_parameter", "memory_working", "model_name"}
    allowed |= {*RULE_KEYS, MTP_KEY, ENCODER_KEY, CONTINUES_KEY, FROZEN_KEY, BOUNDARY_KEY}
    for key in entry.values:
        if key not in allowed and entry.values[key] != 0:
            rule = _("must be left out of a frozen layer, which has no backward and keeps nothing for one")
            raise entry.error(key, rule)
    key = "forward_time" if "forward_time" in entry else "time"
    forward_ns = nanoseconds_from_milliseconds(entry.number(key, MILLISECONDS))
    if forward_ns < 1:
        raise entry.error(key, _("must be a nanosecond or more, in milliseconds"))
    return Layer(
        name=entry.text("name"),
        forward_ns=forward_ns,
        parameter_bytes=bytes_of(entry, "memory_parameter"),
        modes={NONE: Mode(activation_bytes=0, backward_ns=0, working_bytes=bytes_of(entry, "memory_working"))},
        is_mtp=_flag(entry, MTP_KEY),
        is_encoder=_flag(entry, ENCODER_KEY),
        continues_block=_flag(entry, CONTINUES_KEY),
        boundary_bytes=_boundary_bytes(entry),
    )


def end_block(entries: Sequence[Fields], has_memory: bool) -> EndBlock:
    """Return the sum of all HEAD or all TAIL entries."""
    blocks = [(layer_count(entry), _end_layer(entry, has_memory)) for entry in entries]
    # What no entry states stays to be derived from the sums.
    states_time = any(block.stated_weight_ns is not None for _, block in blocks)
    states_memory = any(block.stated_until_weight_bytes is not None for _, block in blocks)
    return EndBlock(
        name=" + ".join(entry.text("name") for entry in entries),
        forward_ns=sum(count * block.forward_ns for count, block in blocks),
        backward_ns=sum(count * block.backward_ns for count, block in blocks),
        parameter_bytes=sum(count * block.parameter_bytes for count, block in blocks),
        activation_bytes=sum(count * block.activation_bytes for count, block in blocks),
        working_bytes=max((block.working_bytes for _, block in blocks), default=0),  # one after the other
        stated_weight_ns=sum(count * block.weight_ns for count, block in blocks) if states_time else None,
        stated_until_weight_bytes=sum(count * block.until_weight_bytes for count, block in blocks)
        if states_memory
        else None,
        boundary_bytes=blocks[-1][1].boundary_bytes if blocks else None,
    )


def _end_layer(entry: Fields, has_memory: bool) -> EndBlock:
    """Return one layer of a HEAD or TAIL entry."""
    for keys in KIND_KEYS.values():
        _mode(entry, keys, 0.0, 0)  # checked, though it means nothing
    if "recompute_kinds" in entry:
        raise entry.error("recompute_kinds", _("must be in a BODY entry, because head and tail never recompute"))
    for key in (*RULE_KEYS, MTP_KEY, ENCODER_KEY, CONTINUES_KEY, FROZEN_KEY, HALVES_KEY):
        if key in entry:
            raise entry.error(key, _("must be in a BODY entry: the first stage has the head, the last one the tail"))
    if BOUNDARY_KEY in entry and entry.text("type") == "TAIL":
        raise entry.error(BOUNDARY_KEY, _("must be in a BODY or HEAD entry: nothing comes behind the tail"))
    forward_ms, backward_ms = _times(entry)
    return EndBlock(
        forward_ns=nanoseconds_from_milliseconds(forward_ms),
        backward_ns=nanoseconds_from_milliseconds(backward_ms),
        parameter_bytes=bytes_of(entry, "memory_parameter") if has_memory else 0,
        activation_bytes=bytes_of(entry, "memory_activation") if has_memory else 0,
        working_bytes=bytes_of(entry, "memory_working") if has_memory else 0,
        stated_weight_ns=_weight_ns(entry, backward_ms),
        stated_until_weight_bytes=_until_weight_bytes(entry) if has_memory else None,
        boundary_bytes=_boundary_bytes(entry),
    )


def _flag(entry: Fields, key: str) -> bool:
    """Return a flag that is off where the entry does not have it."""
    return entry.flag(key) if key in entry else False


def layer_count(entry: Fields) -> int:
    """Return the number of equal layers that an entry stands for."""
    return entry.integer("nb_layer", LAYERS)


def bytes_of(fields: Fields, key: str) -> int:
    """Return the bytes of a field in megabytes; zero where it is absent."""
    return bytes_from_megabytes(fields.number(key, MEGABYTES)) if key in fields else 0


def _times(entry: Fields) -> tuple[float, float]:
    """Return forward and plain backward in milliseconds."""
    # Both are checked where both are there, though one wins.
    times = {key: entry.number(key, MILLISECONDS) for key in ("time", "forward_time", "backward_time") if key in entry}
    forward_ms = times["forward_time"] if "forward_time" in times else entry.number("time", MILLISECONDS)
    coef = entry.number("backward_coef", COEFFICIENT) if "backward_coef" in entry else 0.0
    return forward_ms, times.get("backward_time", (1 + coef) * PLAIN_BACKWARD_RATIO * forward_ms)


def _weight_ns(entry: Fields, backward_ms: float) -> int | None:
    """Return the stated time of the weight gradient; None where the entry has none."""
    if "weight_time" not in entry:
        return None
    weight_ms = entry.number("weight_time", MILLISECONDS)
    if weight_ms > backward_ms:
        rule = _(
            "must be at most the backward without recomputation ({backward_ms:g}), of which it is a part",
            backward_ms=backward_ms,
        )
        raise entry.error("weight_time", rule)
    return nanoseconds_from_milliseconds(weight_ms)


def _until_weight_bytes(entry: Fields) -> int | None:
    """Return the stated memory that is held until the weight gradient; None where the entry has none."""
    return bytes_of(entry, "memory_until_weight") if "memory_until_weight" in entry else None


def _boundary_bytes(entry: Fields) -> int | None:
    """Return the stated bytes that a stage sends on which ends here; None where the entry has none."""
    return entry.integer(BOUNDARY_KEY, MEMORY_BYTES) if BOUNDARY_KEY in entry else None


def _require_memory(entry: Fields) -> None:
    """Refuse memory given in part, and an activation of zero, which is a missing measurement."""
    for key in ("memory_parameter", "memory_activation"):
        if key not in entry:
            raise entry.error(
                key,
                _("must be given, because another BODY entry has memory"),
                remedy=_("add it, or leave all memory out of the BODY entries to plan without a limit"),
            )
    entry.number("memory_activation", MEGABYTES, above_zero=True)


def _kinds(entry: Fields, plain_ms: float, plain_working_bytes: int) -> dict[str, Mode]:
    """Return the recompute kinds that an entry offers."""
    modes = {}
    for kind, keys in KIND_KEYS.items():
        mode = _mode(entry, keys, plain_ms, plain_working_bytes)
        if mode.activation_bytes > 0:
            modes[kind] = mode
    if "recompute_kinds" in entry:
        named = entry.inner("recompute_kinds")
        for kind in named.values:
            if not is_kind_name(kind) or kind in KIND_KEYS or kind == NONE:
                rule = _(
                    "must name each kind by identifiers or paths of modules, joined with +, other than {names}",
                    names=", ".join((NONE, *KIND_KEYS)),
                )
                raise InputError(value=kind, rule=rule, place=named.place())
            fields = named.inner(kind)
            fields.check_known(("memory", "working", "time", "coef", OFFLOADED_KEY))
            moved_bytes = bytes_of(fields, OFFLOADED_KEY)
            if "time" in fields and "coef" in fields:
                raise fields.error("", _("must have at most one of the fields 'time' and 'coef'"))
            if not moved_bytes and "time" not in fields and "coef" not in fields:
                raise fields.error("", _("must have one of the fields 'time' and 'coef'"))
            if not moved_bytes or "memory" in fields:
                fields.number("memory", MEGABYTES, above_zero=not moved_bytes)
            mode = _mode(fields, _Keys("memory", "working", "time", "coef", 0.0), plain_ms, plain_working_bytes)
            modes[kind] = replace(mode, offloaded_bytes=moved_bytes)
    return modes


def _mode(fields: Fields, keys: _Keys, plain_ms: float, plain_working_bytes: int) -> Mode:
    """Return one kind; its activation is zero where the entry does not offer it."""
    coef = fields.number(keys.coef, COEFFICIENT) if keys.coef in fields else keys.default_coef
    backward_ms = (1 + coef) * plain_ms
    if keys.time in fields:
        backward_ms = fields.number(keys.time, MILLISECONDS)
        if backward_ms < plain_ms:
            raise fields.error(
                keys.time,
                _(
                    "must be at least the backward without recomputation ({plain_ms:g}), which it includes",
                    plain_ms=plain_ms,
                ),
                remedy=_("add the backward time to it, or use {field}", field=keys.coef),
            )
    return Mode(
        activation_bytes=bytes_of(fields, keys.memory),
        backward_ns=nanoseconds_from_milliseconds(backward_ms),
        working_bytes=bytes_of(fields, keys.working) if keys.working in fields else plain_working_bytes,
    )
