"""Sets of modules that a layer may compute again, each a recompute kind of its own: those worth planning with.

Of all sets of the modules that keep anything, a layer's are the corners of the hull under time and memory: no other
set, and no two others in different layers, keep as little on average in as little time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from evenflow.cluster.topology import Topology
from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.activations import moved_bytes
from evenflow.predict.step_network import captured, kept_by_kind, on_one_device, priced_layer_of
from evenflow.predict.training import (
    MOVES,
    PRODUCTS,
    RECOMPUTE_MODULES,
    Training,
    moved_of,
    set_kind,
    sets_among,
    with_inner,
)
from evenflow.predict.transformer import LayerKind

ModuleSet = tuple[str, ...]
_ALL: ModuleSet = (FULL,)
_LEAST_STEP = 0.2
"""Of all bytes that can move beside a set, those that one set moves more than the one before."""
_Cost = tuple[int, float]
"""Bytes that stay until the backward, and nanoseconds of the backward."""


def best_module_sets(
    training: Training, topology: Topology, known_kinds: Collection[str] | None = None
) -> tuple[ModuleSet, ...]:
    """Return the sets that are corners for some layer, those that keep most first; with `known_kinds` among these.

    Nothing and `full` go without saying. Where these alone are corners among the sets that are known, those count that
    no single one beats: a layer under a set is a smaller step than one under `full`.
    """
    topology, alone = captured(training, topology), on_one_device(training)
    found: dict[ModuleSet, int] = {}
    for layer in dict.fromkeys(kind for kind in training.model.kinds if not kind.frozen):
        costs = _costs(alone, topology, layer, known_kinds)
        best = [modules for modules in corners(costs) if modules and modules != _ALL]
        if not best and known_kinds is not None:
            best = _unbeaten(costs)
        for modules in best:
            found[modules] = max(found.get(modules, 0), costs[modules][0])
    return tuple(sorted(found, key=lambda modules: (-found[modules], modules)))


def with_moved_sets(
    training: Training, sets: Sequence[ModuleSet], known_kinds: Collection[str]
) -> tuple[ModuleSet, ...]:
    """Return `sets` and nothing, each also with modules moved to the host, in some steps from few bytes to all.

    Among `known_kinds`. A byte takes the link as long whatever it is of, so that those with most bytes come first; the
    layer that there are most of decides.
    """
    known: dict[frozenset[str], list[ModuleSet]] = {}
    for modules in sets_among(known_kinds):
        moved = tuple(name for name in modules if name.startswith(MOVES))
        known.setdefault(frozenset(modules) - set(moved), []).append(moved)
    kinds = [kind for kind in training.model.kinds if not kind.frozen]
    layer = max(kinds, key=kinds.count)
    found: dict[ModuleSet, None] = dict.fromkeys(sets)
    for again in ((), *sets):
        for moved in _moved_steps(training, layer, again, known.get(frozenset(again), ())):
            found[*again, *moved] = None
    return tuple(found)


def _moved_steps(
    training: Training, layer: LayerKind, again: ModuleSet, known: Sequence[ModuleSet]
) -> Iterator[ModuleSet]:
    """Yield modules to move beside those that are computed again, of those `known`, each time with a good part more."""

    def moved(modules: ModuleSet) -> int:
        both = (*again, *modules)
        return moved_bytes(replace(training, recompute_sets=(both,)), layer, kind=set_kind(both))

    steps: list[ModuleSet] = [()]
    while True:
        grown = [modules for modules in known if set(steps[-1]) < set(modules)]
        least = min(map(len, grown), default=0)
        best = max((modules for modules in grown if len(modules) == least), key=moved, default=steps[-1])
        if moved(best) == moved(steps[-1]):
            break
        steps.append(best)
    least_step, last = moved(steps[-1]) * _LEAST_STEP, 0
    for modules in steps[1:]:
        if moved(modules) - last >= least_step or modules == steps[-1]:
            last = moved(modules)
            yield modules


def corners(costs: Mapping[ModuleSet, _Cost]) -> list[ModuleSet]:
    """Return the sets at the corners of the lower hull of bytes and time, the one that keeps least first.

    Of equal ones the smallest counts.

    >>> corners({(): (9, 1.0), ("a",): (5, 2.0), ("b",): (6, 2.0), ("a", "b"): (1, 2.5), ("full",): (0, 9.0)})
    [('full',), ('a', 'b'), ()]
    """
    hull: list[ModuleSet] = []
    for modules in sorted(costs, key=lambda modules: (costs[modules], len(modules), modules)):
        if hull and costs[modules][1] >= costs[hull[-1]][1]:
            continue  # what keeps less takes no longer
        while len(hull) > 1 and not _turns(*(costs[corner] for corner in (hull[-2], hull[-1], modules))):
            hull.pop()
        hull.append(modules)
    return hull


def _unbeaten(costs: Mapping[ModuleSet, _Cost]) -> list[ModuleSet]:
    """Return the sets beside nothing and all of which no other keeps as little in as little time."""

    def beats(other: _Cost, cost: _Cost) -> bool:
        return other != cost and other[0] <= cost[0] and other[1] <= cost[1]

    sets = [modules for modules in costs if modules and modules != _ALL]
    return [modules for modules in sets if not any(beats(other, costs[modules]) for other in costs.values())]


def _turns(first: _Cost, second: _Cost, third: _Cost) -> bool:
    """Whether the second is below the line from the first to the third."""
    return (second[1] - first[1]) * (third[0] - first[0]) < (third[1] - first[1]) * (second[0] - first[0])


def _costs(
    training: Training, topology: Topology, layer: LayerKind, known_kinds: Collection[str] | None
) -> dict[ModuleSet, _Cost]:
    """Return what a layer costs under each set that changes it, nothing and all of it too."""
    plain = _under(training, topology, layer, ("core_attn",))
    single = {name: _under(training, topology, layer, (name,))[SELECT] for name in RECOMPUTE_MODULES}
    present = [name for name, cost in single.items() if cost[0] < plain[NONE][0]]
    costs = {(): plain[NONE], _ALL: plain[FULL]}
    for modules in _tried(present, known_kinds):
        says_more = all(name not in with_inner(set(modules) - {name}) for name in modules)
        if says_more and (PRODUCTS not in modules or len(modules) == 1):  # which has most of the others inside
            costs[modules] = _under(training, topology, layer, modules)[SELECT]
    return costs


def _tried(present: Sequence[str], known_kinds: Collection[str] | None) -> Iterable[ModuleSet]:
    """Return the sets of modules that keep anything, or those known; the smallest of those with the same of them."""
    if known_kinds is None:
        return (modules for size in range(1, len(present) + 1) for modules in combinations(present, size))
    known: dict[ModuleSet, ModuleSet] = {(): ()}
    for modules in sorted(sets_among(known_kinds), key=lambda modules: (len(modules), modules)):
        if not moved_of(modules):
            known.setdefault(tuple(name for name in present if name in modules), modules)
    return (modules for modules in known.values() if modules)


def _under(training: Training, topology: Topology, layer: LayerKind, modules: ModuleSet) -> dict[str, _Cost]:
    chosen = replace(training, recompute_modules=modules)
    part, kept = priced_layer_of(chosen, topology, layer), kept_by_kind(chosen, layer)
    return {kind: (kept[kind].activations, part.backward[kind].total_ns) for kind in (NONE, SELECT, FULL)}
