"""The recompute kinds that torchtitan's settings of activation checkpointing give to layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from evenflow.adapters.torchtitan import LAYER_KINDS
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import FULL, NONE, ordered_kinds
from evenflow.predict.training import PRODUCTS, sets_among
from evenflow.profiles.yaml_file import optional_section
from evenflow.ranges import LAYERS, Range
from evenflow.schedule import Schedule

_SECTION = "activation_checkpoint"
_SELECTIVE = ("selective_ac_option", "force_recompute_mm_shapes_by_fqns")
"""Keys that tell the policy of operators, which is `products`: in TOML, and as later versions save it."""
_POLICY, _SAVED = "memory_policy", "full_recompute_save_ops"
"""Keys of the experiment `graph_trainer`."""
_LAYER = Range(least=0, most=LAYERS.most)
_EVERY = Range(least=0, most=LAYERS.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedModules:
    """The layers of every stage under their recompute kinds."""

    kinds: Sequence[Sequence[str]]
    """The kind of each layer, by stage."""
    unknown: tuple[str, ...] = ()
    """Settings that no kind of evenflow means."""
    notes: tuple[str, ...] = ()
    place_of_sets: str = ""
    """The setting that asks for `products`; empty for none."""


def recomputed_layers(top: Fields, parts: Sequence[int], schedule: Schedule) -> RecomputedModules:
    """Return how settings recompute stages of these numbers of layers, which `schedule` places on ranks.

    Raises:
        InputError: a mode that torchtitan does not have, or a policy of evenflow whose layers are not there.
    """
    compiled = optional_section(top, "compile")
    if compiled.values.get(_POLICY) is not None:
        return _by_policy(compiled, parts)
    if _is_off(top):
        return _all(NONE, parts)
    section = optional_section(top, _SECTION)
    mode = _mode(section, is_toml="model_spec" not in top)
    if mode in (FULL, NONE):
        return _all(mode, parts)
    if mode == "layers":
        return _as_planned(section, parts)
    if mode in _SELECTIVE:
        return replace(_all(PRODUCTS, parts), place_of_sets=section.place(mode))
    if mode == "every":
        return _every(section, parts, schedule)
    unknown = _all(NONE, parts)
    return RecomputedModules(kinds=unknown.kinds, unknown=(section.place(mode),), notes=unknown.notes)


def _by_policy(compiled: Fields, parts: Sequence[int]) -> RecomputedModules:
    """Return what the experiment `graph_trainer` recomputes, which does not look at the other section.

    ``full`` keeps the outputs of layers, ``eager`` what the policy of operators keeps. ``default`` keeps all products,
    and ``sac_and_offload`` moves these to the host, the largest first. [torchtitan, graph_trainer/memory_policy.py]
    """
    policy, place = compiled.values[_POLICY], compiled.place(_POLICY)
    if policy == FULL and not compiled.values.get(_SAVED):
        return _all(FULL, parts)
    if policy == "eager":
        return replace(_all(PRODUCTS, parts), place_of_sets=place)
    return RecomputedModules(
        kinds=_all(NONE, parts).kinds, unknown=(compiled.place(_SAVED) if policy == FULL else place,)
    )


def _is_off(top: Fields) -> bool:
    return _SECTION in top and top.values[_SECTION] is None


def _mode(section: Fields, *, is_toml: bool) -> str:
    """Return full, none, layers, every, or the key of a policy that no kind means."""
    if not is_toml:  # the name of the policy is not saved, so its own settings tell it
        own = ("layers", "memory_budget", _SELECTIVE[1])
        return next((key for key in own if key in section), FULL)
    mode = section.values.get("mode", "selective")
    if mode not in ("selective", "full", "memory_budget", "none"):
        raise section.error("mode", _("must be selective, full, memory_budget or none"))
    if mode != "selective":
        return str(mode).replace("memory_budget", "mode")
    option = section.values.get("selective_ac_option", "2")
    if option == "op":
        return _SELECTIVE[0]
    if not isinstance(option, str) or not option.isdecimal() or len(option) > 6 or int(option) not in _EVERY:
        raise section.error("selective_ac_option", _("must be op, or every how many layers as a text"))
    return "every"


def _all(kind: str, parts: Sequence[int]) -> RecomputedModules:
    return RecomputedModules(kinds=[(kind,) * count for count in parts])


def _every(section: Fields, parts: Sequence[int], schedule: Schedule) -> RecomputedModules:
    """Every k-th of the layers that a rank has, counted through its stages."""
    step = int(str(section.values.get("selective_ac_option", "2"))) or 1
    kinds: list[tuple[str, ...]] = [()] * len(parts)
    for column in schedule.stage_table.T.tolist():
        number = 0
        for stage in column:
            numbers = range(number + 1, number + 1 + parts[stage])
            kinds[stage] = tuple(FULL if each % step == 0 else NONE for each in numbers)
            number += parts[stage]
    return RecomputedModules(kinds=kinds, notes=tuple(_other_place(kinds)))


def _as_planned(section: Fields, parts: Sequence[int]) -> RecomputedModules:
    by_kind = section.inner("layers")
    by_kind.check_known(LAYER_KINDS)
    found = {layer: kind for kind in by_kind.values for layer in by_kind.integers(kind, _LAYER)}
    listed = sum(len(by_kind.integers(kind, _LAYER)) for kind in by_kind.values)
    if listed != len(found) or any(layer >= sum(parts) for layer in found):
        raise InputError(
            value=sorted(found),
            rule=_("must have each layer once, below the {num_layers} of the model", num_layers=sum(parts)),
            place=section.place("layers"),
        )
    starts = [0, *accumulate(parts)]
    kinds = [
        tuple(found.get(layer, NONE) for layer in range(start, start + count))
        for start, count in zip(starts, parts, strict=False)
    ]
    by_sets = section.place("layers") if sets_among(by_kind.values) else ""
    return RecomputedModules(kinds=kinds, notes=tuple(_other_place(kinds)), place_of_sets=by_sets)


def _other_place(kinds: Sequence[Sequence[str]]) -> Iterator[str]:
    if any(list(stage) != sorted(stage, key=ordered_kinds(set(stage)).index) for stage in kinds):
        yield _("layers that recompute are not the first of their stage; the plan counts them as if they were")
