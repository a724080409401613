"""What a training YAML moves to the host, with the lists of layers that it has beside that."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import (
    BOTH,
    COMM,
    FULL,
    NONE,
    OFFLOAD,
    SELECT,
    SET_JOINT,
    Cells,
    Plan,
    cells,
    looped,
    moved_kind,
    ordered_kinds,
)
from evenflow.predict.training import set_kind
from evenflow.profiles.yaml_file import optional_section
from evenflow.targets.frameworks.mindformers.module_sets import MOVED, MOVED_PATTERNS, PATTERNS, are_of_modules
from evenflow.targets.frameworks.mindformers.swap import KEYS, MODEL, SECTION, unfused_note
from evenflow.targets.stages import StageLayers, stages_of

_LISTS = ("recompute", "select_recompute", "select_comm_recompute")
_COUNTED = {(True, True): BOTH, (True, False): SELECT, (False, True): COMM, (False, False): NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwappedPlan:
    """A plan with the recomputation and the moves of a training YAML that has swap on."""

    plan: Plan
    unknown: tuple[str, ...]
    """Places of what moves, or is computed again, that no plan knows."""
    notes: tuple[str, ...]
    place_of_sets: str
    """Where patterns of modules stand; empty without."""


def swaps(top: Fields) -> bool:
    """Return whether a training YAML has swap on, where the model looks for it."""
    return bool(_swap_of(top).flag("swap"))


def unread_swap(top: Fields) -> Iterator[str]:
    """Yield a note where swap is on in a section that a newer model does not look at."""
    if optional_section(top, SECTION).flag("swap") and not swaps(top):
        yield _(
            "nothing moves: newer models (use_legacy False) have {key} in {model}, and do not look at {section}",
            key="swap",
            model=MODEL,
            section=SECTION,
        )


def swapped_plan(plan: Plan, top: Fields) -> SwappedPlan:
    """Return `plan` with the recomputation and the moves of a training YAML that has swap on.

    Raises:
        InputError: a list that MindFormers refuses beside swap.
    """
    recompute, swap = optional_section(top, "recompute_config"), _swap_of(top)
    count, is_older = plan.num_layers, top.values.get("use_legacy") is True
    named = recompute.values.get("select_recompute")
    of_modules = isinstance(named, Mapping) and are_of_modules(named)
    full, comm = (_numbers(recompute, name, recompute.values.get(name), count) for name in (_LISTS[0], _LISTS[2]))
    again: dict[str, set[int]] = {}
    if of_modules and isinstance(named, Mapping):
        again = {
            module: _numbers(recompute, _LISTS[1], named[patterns[0]], count)
            for module, patterns in PATTERNS.items()
            if patterns[0] in named and not is_older
        }
    select = set() if of_modules else _numbers(recompute, _LISTS[1], named, count)
    whole, operators = _layer_swap(swap, count), set[int]()
    unknown: list[str] = []
    notes: list[str] = []
    if swap.values.get("op_swap") is not None:
        operators, patterns = _op_swap(swap, count, is_older=is_older)
        unknown += [f"{swap.place('op_swap')}: {pattern}" for pattern in patterns]
    elif swap.values.get("layer_swap") is None and swap.path == SECTION:
        unknown.append(swap.place("swap"))  # flash attention of all layers
    elif swap.values.get("layer_swap") is None:
        notes.append(_("swap without lists moves nothing: newer models have no cell attention.flash_attention"))
    if operators & (select | comm) - full:
        unknown.append(swap.place("op_swap"))
        operators -= select | comm
    if of_modules and (is_older or comm - full):
        unknown.append(recompute.place(_LISTS[1] if is_older else _LISTS[2]))
    kinds: dict[int, str] = {}
    for layer in range(max([count, *(number + 1 for number in full | select | comm | whole | operators)])):
        modules = [module for module in PATTERNS if layer in again.get(module, ())]
        kind = set_kind(modules) or _COUNTED[layer in select, layer in comm and not of_modules]
        if layer in whole:
            kind = moved_kind(kind)
        elif layer in operators:
            kind = set_kind([*modules, *MOVED])
        kinds[layer] = FULL if layer in full else kind
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    return SwappedPlan(
        plan=_counted(plan, stages, kinds),
        unknown=tuple(unknown),
        notes=(*notes, *_notes(stages, kinds, moved=whole | operators)),
        place_of_sets=recompute.place(_LISTS[1]) if again else swap.place("op_swap") if operators else "",
    )


def _swap_of(top: Fields) -> Fields:
    """Return the section that the model looks at, under the keys of `swap_config`."""
    model = optional_section(optional_section(top, "model"), "model_config")
    if top.values.get("use_legacy") is not False:
        return optional_section(top, SECTION)
    stated = {key: name for key, names in KEYS.items() for name in names if name in model}
    lines = {key: model.lines[name] for key, name in stated.items() if name in model.lines}
    values = {key: model.values[name] for key, name in stated.items()}
    return replace(model, values=values, lines=lines)


def _entries(swap: Fields, key: str, *needed: str) -> list[Mapping[str, object]]:
    """Return the entries under a key, of which one may stand without a list."""
    value = swap.values.get(key) or []
    entries = [value] if isinstance(value, Mapping) else value
    names = ("backward_prefetch", "layers", *needed)
    if not isinstance(entries, list) or not all(
        isinstance(entry, Mapping) and all(name in entry for name in names) for entry in entries
    ):
        raise swap.error(key, _("must be a list of entries with {names}", names=", ".join(names)))
    return entries


def _layer_swap(swap: Fields, num_layers: int) -> set[int]:
    """Return the layers of all entries of ``layer_swap``."""
    key = "layer_swap"
    return set().union(*(_numbers(swap, key, entry["layers"], num_layers) for entry in _entries(swap, key)))


def _op_swap(swap: Fields, num_layers: int, *, is_older: bool) -> tuple[set[int], list[str]]:
    """Return the layers whose `MOVED` modules move, and the patterns of which it is not known what they move."""
    key = "op_swap"
    layers: dict[str, set[int]] = {}
    for entry in _entries(swap, key, "op_name"):
        names = entry["op_name"] if isinstance(entry["op_name"], list) else [entry["op_name"]]
        if not all(isinstance(name, str) for name in names):
            raise swap.error(key, _("must have a text, or a list of texts, as op_name"))
        for name in names:
            layers.setdefault(str(name), set()).update(_numbers(swap, key, entry["layers"], num_layers))
    apart = [layers.get(pattern, set()) for pattern in MOVED_PATTERNS]
    both = set() if is_older else set.intersection(*apart)
    unknown = [
        name for name, own in layers.items() if own and not (name in MOVED_PATTERNS and not is_older and own == both)
    ]
    return both, unknown


def _numbers(fields: Fields, key: str, value: object, num_layers: int) -> set[int]:
    """Return the layers of a list of numbers, of true, of false or nothing; patterns have one list for all."""
    if isinstance(value, Mapping):
        every = [_numbers(fields, key, numbers, num_layers) for numbers in value.values()]
        if any(numbers != every[0] for numbers in every):
            rule = _("must have the same layers for every pattern, since a plan has one kind of layers for all of them")
            raise fields.error(key, rule)
        return every[0] if every else set()
    if value is None or isinstance(value, bool):
        return set(range(num_layers)) if value else set()
    if isinstance(value, Sequence) and not isinstance(value, str) and all(_is_number(number) for number in value):
        return {int(number) for number in value}
    rule = _("must be true, false or a list of numbers of layers: beside swap there are no counts of cells")
    raise fields.error(key, rule)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counted(plan: Plan, stages: Iterable[StageLayers], kinds: Mapping[int, str]) -> Plan:
    """Return the plan with so many layers of every cell under each kind."""
    used = {kinds[layer] for stage in stages for layer in stage.layers} - {NONE}
    tables = {kind: [[0] * plan.num_ranks for _row in plan.layers] for kind in ordered_kinds(used) if kind != NONE}
    for stage in stages:
        for layer in stage.layers:
            if kinds[layer] != NONE:
                tables[kinds[layer]][stage.chunk][stage.rank] += 1
    recompute: dict[str, Cells] = {kind: cells(table) for kind, table in tables.items()}
    return replace(plan, recompute=recompute)


def _notes(stages: Sequence[StageLayers], kinds: Mapping[int, str], *, moved: set[int]) -> Iterator[str]:
    if any(kinds[layer] == FULL for layer in moved):
        yield _("layers that are recomputed as a whole do not move, though swap names them")
    order = ordered_kinds(set(kinds.values())).index
    for stage in stages:
        own = [order(kinds[layer]) for layer in stage.layers]
        if own != sorted(own):
            yield _("layers that recompute or move are counted as the first of their stage")
            break
    count = stages[-1].layers.stop
    if any(layer >= count and kind != NONE for layer, kind in kinds.items()):
        yield _("layers from {count} on, which predict further tokens, are not in the plan", count=count)
    if moved:
        yield _("backward_prefetch counts operators: when fetches begin is said by --prefetch")
    if any(OFFLOAD in kind.split(SET_JOINT) for kind in kinds.values()):
        yield unfused_note()
