"""``--recompute-sets``: sets of modules that layers may compute again or move to the host, named or the best of all."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import SELECT, HostLink
from evenflow.predict.chosen_sets import chosen_sets, named_sets
from evenflow.predict.training import Training, moved_of, set_kind

PLACE = "--recompute-sets"


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
        InputError: as `chosen_sets`, or modules that move without a link.
    """
    named: tuple[tuple[str, ...], ...] = ((SELECT,),)
    if text is not None:
        named = chosen_sets(named_sets(text), training, topology, known_kinds, place=PLACE, moves=host_link is not None)
    sets = tuple(dict.fromkeys((*named, *used)))
    moving = [set_kind(modules) for modules in sets if moved_of(modules)]
    if moving and host_link is None:
        rule = _("must come with --host-link, the bandwidth to the host's memory, which plan and compare take")
        raise InputError(value=", ".join(moving), rule=rule, place=_("modules that move"))
    return replace(training, recompute_sets=sets, host_link=host_link if moving else None)
