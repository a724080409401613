"""Layers that MindFormers moves to the host and back (``swap_config``), and its lists of layers beside them.

With ``swap_config.swap`` on, the recompute lists have the numbers of layers instead of counts of cells, ``true`` stands
for all layers, and nothing moves of a layer that is recomputed. [MindFormers: LayerSetting, TransformerSwapConfig]

    swap_config:
      swap: true
      layer_swap: [{backward_prefetch: 1, layers: [0, 1, 8]}]
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, OFFLOAD, SELECT, Cells, Plan, cells, looped
from evenflow.profiles.yaml_file import optional_section
from evenflow.targets.stages import StageLayers, layers_by_kind, stages_of

_SECTION = "swap_config"
_PREFETCH = 1
"""Operators of a backward before the one that needs what comes back; a plan has no other number."""
_LISTS = ("recompute", "select_recompute", "select_comm_recompute")


def swap_values(plan: Plan) -> dict[str, object]:
    """Return what moves under `plan` in a training YAML, with its lists of recomputation; empty where nothing does."""
    if OFFLOAD not in plan.used_kinds:
        return {}
    by_kind = layers_by_kind(_stages(plan))
    layers = {kind: list(by_kind.get(kind, ())) for kind in (FULL, BOTH, SELECT, COMM, OFFLOAD)}
    lists = (layers[FULL], sorted(layers[SELECT] + layers[BOTH]), sorted(layers[COMM] + layers[BOTH]))
    return {
        **{f"recompute_config.{name}": numbers or False for name, numbers in zip(_LISTS, lists, strict=True)},
        f"{_SECTION}.swap": True,
        f"{_SECTION}.layer_swap": [{"backward_prefetch": _PREFETCH, "layers": layers[OFFLOAD]}],
    }


def swaps(top: Fields) -> bool:
    """Return whether a training YAML has swap on."""
    return optional_section(top, _SECTION).flag("swap")


def swapped_plan(plan: Plan, top: Fields) -> tuple[Plan, tuple[str, ...], tuple[str, ...]]:
    """Return `plan` with the recomputation and the moves of a training YAML that has swap on, and notes.

    Between them are the places of what moves besides whole layers, which no plan knows.

    Raises:
        InputError: a list that MindFormers refuses beside swap.
    """
    recompute, swap = optional_section(top, "recompute_config"), optional_section(top, _SECTION)
    full, select, comm = (_numbers(recompute, name, recompute.values.get(name), plan.num_layers) for name in _LISTS)
    moved = _moved(swap, plan.num_layers)
    by_kind = {
        FULL: full,
        BOTH: (select & comm) - full,
        SELECT: select - comm - full,
        COMM: comm - select - full,
        OFFLOAD: moved - full - select - comm,
    }
    unknown = [swap.place("op_swap")] if swap.values.get("op_swap") else []
    if not swap.values.get("op_swap") and swap.values.get("layer_swap") is None:
        unknown.append(swap.place("swap"))  # flash attention of all layers
    stages = _stages(plan)
    return _counted(plan, stages, by_kind), tuple(unknown), tuple(_notes(stages, by_kind, moved))


def _stages(plan: Plan) -> tuple[StageLayers, ...]:
    return stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))


def _moved(swap: Fields, num_layers: int) -> set[int]:
    """Return the layers of all entries of ``layer_swap``."""
    key = "layer_swap"
    entries = swap.values.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, Mapping) and "layers" in entry and "backward_prefetch" in entry for entry in entries
    ):
        raise swap.error(key, _("must be a list of entries with backward_prefetch and layers"))
    return set().union(*(_numbers(swap, key, entry["layers"], num_layers) for entry in entries))


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


def _counted(plan: Plan, stages: Iterable[StageLayers], by_kind: Mapping[str, set[int]]) -> Plan:
    """Return the plan with so many layers of every cell under each kind."""
    tables = {kind: [[0] * plan.num_ranks for _row in plan.layers] for kind in by_kind}
    for stage in stages:
        for kind, numbers in by_kind.items():
            tables[kind][stage.chunk][stage.rank] = len(numbers & set(stage.layers))
    used: dict[str, Cells] = {kind: cells(table) for kind, table in tables.items() if any(map(any, table))}
    return Plan(
        schedule=plan.schedule,
        num_microbatches=plan.num_microbatches,
        layers=plan.layers,
        recompute=used,
        sequence_splits=plan.sequence_splits,
    )


def _notes(stages: Sequence[StageLayers], by_kind: Mapping[str, set[int]], moved: set[int]) -> Iterator[str]:
    if moved - by_kind[OFFLOAD]:
        yield _("layers that are recomputed do not move, though layer_swap names them")
    reached: set[int] = set()
    for numbers in by_kind.values():
        reached |= numbers
        if any(_has_gap(stage.layers, reached) for stage in stages):
            yield _("layers that recompute or move are counted as the first of their stage")
            break
    count = stages[-1].layers.stop
    if any(number >= count for numbers in by_kind.values() for number in numbers):
        yield _("layers from {count} on, which predict further tokens, are not in the plan", count=count)
    if moved:
        yield _("backward_prefetch counts operators: when fetches begin is said by --prefetch")


def _has_gap(layers: range, numbers: set[int]) -> bool:
    """Return whether the layers among `numbers` are not the first ones."""
    own = numbers & set(layers)
    return own != set(layers[: len(own)])
