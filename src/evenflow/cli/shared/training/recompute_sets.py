"""``--recompute-sets``: sets of modules that layers may compute again or move to the host, named or the best of all."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.cli.shared.options import BEST
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import did_you_mean
from evenflow.language import _
from evenflow.model import SELECT, HostLink
from evenflow.predict.module_sets import best_module_sets, with_moved_sets
from evenflow.predict.training import (
    MOVED_MODULES,
    MOVES,
    RECOMPUTE_MODULES,
    Training,
    is_possible_set,
    moved_of,
    set_kind,
)

_MODULES = (*RECOMPUTE_MODULES, *(f"{MOVES}{module}" for module in MOVED_MODULES))


def with_module_sets(
    training: Training,
    text: str | None,
    topology: Topology,
    known_kinds: frozenset[str] | None,
    *,
    used: Sequence[tuple[str, ...]] = (),
    host_link: HostLink | None = None,
) -> Training:
    """Return a training whose layers may be under the sets of modules that a user names, or under the best ones.

    Of a framework they are those that it has, moved ones too where there is a link to the host. Those `used` by the
    user's own plan come beside; without a text that is all, beside `select`.

    Raises:
        InputError: a module that is none, a set that the framework does not have, or none that is worth it.
    """
    named: tuple[tuple[str, ...], ...] = ((SELECT,),)
    if text is not None:
        named = module_sets(text, training, topology, known_kinds, moves=host_link is not None)
    sets = tuple(dict.fromkeys((*named, *used)))
    moves = any(map(moved_of, sets))
    if moves and host_link is None:
        rule = _("must come with --host-link, the bandwidth to the host's memory, which plan and compare take")
        value = ", ".join(set_kind(modules) for modules in sets if moved_of(modules))
        raise InputError(value=value, rule=rule, place=_("modules that move"))
    return replace(training, recompute_sets=sets, host_link=host_link if moves else None)


def module_sets(
    text: str, training: Training, topology: Topology, known_kinds: frozenset[str] | None, *, moves: bool = False
) -> tuple[tuple[str, ...], ...]:
    """Return the sets of modules that a user names, or the best ones; of a framework, those that it has.

    With `moves` the best ones of a framework are also those that move something.

    Raises:
        InputError: a module that is none, a set that the framework does not have, or none that is worth it.
    """
    if text == BEST:
        every = best_module_sets(training, topology)
        if moves and known_kinds is not None:
            every = with_moved_sets(training, every)
        sets = tuple(modules for modules in every if known_kinds is None or set_kind(modules) in known_kinds)
        if not sets:
            none = _("must be left out: no set of modules saves anything that full recomputation does not")
            unknown = _("must be left out: the framework has no such sets of modules")
            raise InputError(value=text, rule=unknown if every else none, place="--recompute-sets")
        return sets
    named = [tuple(name.strip() for name in words.split("+")) for words in text.split(",")]
    sets = tuple(dict.fromkeys(tuple(sorted(set(modules), key=_place_of_module)) for modules in named))
    for name in (name for modules in sets for name in modules):
        if name not in _MODULES:
            rule = _("must be some of {names}", names=", ".join(_MODULES))
            raise InputError(value=name, rule=rule, place="--recompute-sets", remedy=did_you_mean(name, _MODULES))
    for modules in sets:
        if not is_possible_set(modules):
            rule = _(
                "must move attn_proj only with core_attn, and nothing that is computed again: core_attn, mla_up_proj, "
                "moe_act and moe"
            )
            raise InputError(value=set_kind(modules), rule=rule, place="--recompute-sets")
        if known_kinds is not None and set_kind(modules) not in known_kinds:
            rule = _("must be a set of modules that the framework can compute again or move, the same in all layers")
            raise InputError(value=set_kind(modules), rule=rule, place="--recompute-sets")
    return sets


def _place_of_module(name: str) -> int:
    return _MODULES.index(name) if name in _MODULES else len(_MODULES)
