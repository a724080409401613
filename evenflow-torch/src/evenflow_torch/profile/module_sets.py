"""Recompute kinds that are sets of the modules of a layer: those that a user names, or the best of all.

What a module frees, and takes to compute again, is measured with that module alone under a checkpoint. Where this adds
up, the sets at the corners of the hull under memory and time follow from it; each of these is measured as a whole, and
those that still are corners of some layer are left. The hull of modules beside each other has the sums of their
corners, so that no more sets come up than there are modules.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from evenflow.errors import InputError
from evenflow.fields import did_you_mean
from evenflow.language import _
from evenflow.model import FULL, NONE
from evenflow.predict.chosen_sets import BEST, ModuleSets
from evenflow.predict.module_sets import corners
from evenflow.predict.training import set_kind
from evenflow_torch.models.checkpointing import modules_of_sets, offered_kinds
from evenflow_torch.models.equal_parts import kinds_of
from evenflow_torch.models.parts import Part

if TYPE_CHECKING:
    from evenflow_torch.profile.model_profile import ModelProfile
    from evenflow_torch.profile.part_profile import PartProfile

MOST_MODULES = 64
"""Modules of a layer that are tried alone, the outermost first."""
MOST_SETS = 8
"""Sets of a layer among the best."""
KindsOfLayer = Callable[[nn.Module], Sequence[str]]
"""Returns the recompute kinds to profile a layer under, `none` among them."""
_Set = tuple[str, ...]
_Cost = tuple[int, float]
"""Bytes that stay until the backward, and nanoseconds of the backward; or what a set changes of both."""
_PLACE = "--recompute-sets"


def with_module_sets(
    named: ModuleSets | None, layers: Sequence[Part], profiled: Callable[[KindsOfLayer], "ModelProfile"]
) -> "ModelProfile":
    """Return the profile of a model whose layers are under sets of modules, or under the usual kinds for None.

    `profiled` makes the profile for given recompute kinds.

    Raises:
        InputError: a name that no layer has a module of, or sets of which none saves anything.
    """
    if named is None:
        return profiled(offered_kinds)
    distinct, _order = kinds_of(layers)
    every = [modules_of_sets(part.module) for part in distinct]
    names = tuple(dict.fromkeys(name for of_layer in every for name in of_layer))
    if not isinstance(named, str):
        return profiled(_those(map(set_kind, _checked(named, names))))
    if named != BEST:
        raise InputError(value=named, rule=_("must be sets of modules, or {best}", best=BEST), place=_PLACE)
    tried = [sorted(of_layer, key=_depth)[:MOST_MODULES] for of_layer in every]
    alone = profiled(_those(name for name in names if any(name in of_layer for of_layer in tried)))
    likely = dict.fromkeys(
        tuple(sorted(modules, key=names.index)) for layer in alone.layers for modules in _likely(layer)
    )
    profile = profiled(_those(map(set_kind, likely)))
    best = [modules for modules in likely if any(modules in _best(layer, likely) for layer in profile.layers)]
    if not best:
        rule = _("must be left out: no set of modules saves anything that full recomputation does not")
        raise InputError(value=named, rule=rule, place=_PLACE)
    profile = profile.under([NONE, *map(set_kind, best), FULL])
    if any(len(of_layer) > MOST_MODULES for of_layer in every):
        note = _("of the modules of a layer the {count} outermost were tried", count=MOST_MODULES)
        profile = replace(profile, notes=(*profile.notes, note))
    return profile


def _those(kinds: Iterable[str]) -> KindsOfLayer:
    """Return the same kinds for all layers, beside nothing and all of a layer."""
    same = (NONE, *kinds, FULL)
    return lambda _layer: same


def _checked(named: Sequence[Sequence[str]], names: Sequence[str]) -> list[_Set]:
    """Return the sets that a user names, in one order."""
    for name in (name for modules in named for name in modules):
        if name not in names:
            rule = _("must be modules of a layer: {names}", names=", ".join(names))
            raise InputError(value=name, rule=rule, place=_PLACE, remedy=did_you_mean(name, names))
    return list(dict.fromkeys(tuple(sorted(set(modules), key=names.index)) for modules in named))


def _likely(layer: "PartProfile") -> list[_Set]:
    """Return the sets at the corners where what single modules free and take adds up."""
    plain = _cost(layer, NONE)
    single = {kind: _cost(layer, kind) for kind in layer.activation_bytes if kind not in (NONE, FULL)}
    changes = {kind: (size - plain[0], time_ns - plain[1]) for kind, (size, time_ns) in single.items()}
    saving = sorted((kind for kind, change in changes.items() if change[0] < 0), key=_depth)
    return [modules for modules in _of_modules(saving, changes) if modules]


def _of_modules(names: Sequence[str], changes: Mapping[str, _Cost]) -> dict[_Set, _Cost]:
    """Return the corners among the sets of some modules, of which those with others inside come first."""
    sums: dict[_Set, _Cost] = {(): (0, 0.0)}
    left = list(names)
    while left:
        name = left.pop(0)
        inner = [other for other in left if other.startswith(f"{name}.")]
        left = [other for other in left if other not in inner]
        choices = _at_corners({(name,): changes[name], **_of_modules(inner, changes)})
        sums = _at_corners(
            {
                (*before, *more): (size + more_size, time_ns + more_ns)
                for before, (size, time_ns) in sums.items()
                for more, (more_size, more_ns) in choices.items()
            }
        )
    return sums


def _best(layer: "PartProfile", sets: Iterable[_Set]) -> list[_Set]:
    """Return which of the sets are corners of a layer, beside nothing and all of it; at most `MOST_SETS`."""
    plain, full = _cost(layer, NONE), _cost(layer, FULL)
    costs = {modules: _cost(layer, set_kind(modules)) for modules in sets}
    apart = {modules: cost for modules, cost in costs.items() if cost not in (plain, full)}
    best = _at_corners({(): plain, (FULL,): full, **apart})
    while len(best) > MOST_SETS + 2:  # of neighbours in memory one says nearly as much as both
        gaps = {after: best[after][0] - best[before][0] for before, after in pairwise(list(best)[:-1])}
        del best[min(gaps, key=gaps.__getitem__)]
    return [modules for modules in best if modules in costs]


def _at_corners(costs: Mapping[_Set, _Cost]) -> dict[_Set, _Cost]:
    return {modules: costs[modules] for modules in corners(costs)}


def _cost(layer: "PartProfile", kind: str) -> _Cost:
    return layer.activation_bytes[kind], layer.times.backward_ns[kind]


def _depth(name: str) -> int:
    return name.count(".")
