"""Sets of modules that layers may compute again or move to the host: those that a user names, or the best of all."""

from collections.abc import Sequence

from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import did_you_mean
from evenflow.language import _
from evenflow.model import SET_JOINT
from evenflow.predict.module_sets import best_module_sets, with_moved_sets
from evenflow.predict.training import SET_MODULES, Training, is_possible_set, set_kind, sets_among

BEST = "best"
"""Instead of sets: those that no others beat."""
ModuleSets = Sequence[Sequence[str]] | str


def named_sets(text: str) -> ModuleSets:
    """Return the sets of modules in the text of an option, or that it asks for the best ones.

    >>> named_sets("mlp, layernorm + mlp"), named_sets("best")
    ([['mlp'], ['layernorm', 'mlp']], 'best')
    """
    if text == BEST:
        return BEST
    return [[name.strip() for name in words.split(SET_JOINT)] for words in text.split(",")]


def chosen_sets(
    named: ModuleSets,
    training: Training,
    topology: Topology,
    known_kinds: frozenset[str] | None,
    *,
    place: str,
    moves: bool = False,
) -> tuple[tuple[str, ...], ...]:
    """Return the sets of modules that a user names, in one order, or the best ones; of a framework, those that it has.

    With `moves` the best ones of a framework are also those that move something.

    Raises:
        InputError: a module that is none, a set that the framework does not have, or none that is worth it.
    """
    if isinstance(named, str):
        if named != BEST:
            raise InputError(value=named, rule=_("must be sets of modules, or {best}", best=BEST), place=place)
        every = best_module_sets(training, topology, known_kinds)
        if moves and known_kinds is not None:
            every = with_moved_sets(training, every, known_kinds)
        sets = tuple(modules for modules in every if known_kinds is None or set_kind(modules) in known_kinds)
        if not sets:
            none = _("must be left out: no set of modules saves anything that full recomputation does not")
            unknown = _("must be left out: the framework has no such sets of modules")
            raise InputError(
                value=named, rule=none if known_kinds is None or sets_among(known_kinds) else unknown, place=place
            )
        return sets
    for name in (name for modules in named for name in modules):
        if name not in SET_MODULES:
            rule = _("must be some of {names}", names=", ".join(SET_MODULES))
            raise InputError(value=name, rule=rule, place=place, remedy=did_you_mean(name, SET_MODULES))
    sets = tuple(dict.fromkeys(tuple(sorted(set(modules), key=SET_MODULES.index)) for modules in named))
    for modules in sets:
        if not is_possible_set(modules):
            rule = _(
                "must move attn_proj only with core_attn, and nothing that is computed again: core_attn, mla_up_proj, "
                "full_attn and moe"
            )
            raise InputError(value=set_kind(modules), rule=rule, place=place)
        if known_kinds is not None and set_kind(modules) not in known_kinds:
            rule = _("must be a set of modules that the framework can compute again or move, the same in all layers")
            raise InputError(value=set_kind(modules), rule=rule, place=place)
    return sets
