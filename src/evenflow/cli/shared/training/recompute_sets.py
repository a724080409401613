"""``--recompute-sets``: sets of modules that layers may compute again, named or the best of all."""

from evenflow.cli.shared.options import BEST
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import did_you_mean
from evenflow.language import _
from evenflow.predict.module_sets import best_module_sets
from evenflow.predict.training import RECOMPUTE_MODULES, Training, set_kind


def module_sets(
    text: str, training: Training, topology: Topology, known_kinds: frozenset[str] | None
) -> tuple[tuple[str, ...], ...]:
    """Return the sets of modules that a user names, or the best ones; of a framework, those that it has.

    Raises:
        InputError: a module that is none, a set that the framework does not have, or none that is worth it.
    """
    if text == BEST:
        every = best_module_sets(training, topology)
        sets = tuple(modules for modules in every if known_kinds is None or set_kind(modules) in known_kinds)
        if not sets:
            none = _("must be left out: no set of modules saves anything that full recomputation does not")
            unknown = _("must be left out: the framework has no such sets of modules")
            raise InputError(value=text, rule=unknown if every else none, place="--recompute-sets")
        return sets
    named = [tuple(name.strip() for name in words.split("+")) for words in text.split(",")]
    sets = tuple(dict.fromkeys(tuple(sorted(set(modules), key=_place_of_module)) for modules in named))
    for name in (name for modules in sets for name in modules):
        if name not in RECOMPUTE_MODULES:
            rule = _("must be some of {names}", names=", ".join(RECOMPUTE_MODULES))
            raise InputError(
                value=name, rule=rule, place="--recompute-sets", remedy=did_you_mean(name, RECOMPUTE_MODULES)
            )
    for modules in sets:
        if known_kinds is not None and set_kind(modules) not in known_kinds:
            rule = _("must be a set of modules that the framework can compute again, the same in all layers")
            raise InputError(value=set_kind(modules), rule=rule, place="--recompute-sets")
    return sets


def _place_of_module(name: str) -> int:
    return RECOMPUTE_MODULES.index(name) if name in RECOMPUTE_MODULES else len(RECOMPUTE_MODULES)
