"""``--group-size``: checked before anything is solved, and tried one by one where an order is only simulated."""

from collections.abc import Callable

from evenflow.cli.shared.options import EVERY
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Sizes
from evenflow.schedule import FAMILIES, check_group_size, different_group_sizes
from evenflow.simulate import Simulation

_OPTION = "--group-size"
_MOST_ACTIONS = 4_000_000
"""Actions of all orders that are simulated for one answer: about a minute."""


def check_given_size(group_size: int | str | None, *, schedule: str, sizes: Sizes) -> None:
    """Raise InputError where the family `schedule` does not have the group size that was asked for."""
    if group_size is None:
        return
    if not FAMILIES[schedule].has_groups:
        rule = _("must not be given for {name}, which has no groups of microbatches", name=schedule)
        raise InputError(value=group_size, rule=rule, place=_OPTION, remedy=_("leave it out, or use interleaved"))
    if isinstance(group_size, int):
        check_group_size(schedule, sizes, group_size, place=_OPTION)


def best_simulated(
    simulated: Callable[[int | None], Simulation],
    *,
    schedule: str,
    sizes: Sizes,
    memory_limit_bytes: int | None = None,
) -> tuple[Simulation, str]:
    """Simulate every group size of a family; return the best one and a sentence on the others.

    The best one fits in memory, if any does, has the shortest step of these, and the smallest peak of those.
    """
    tried = different_group_sizes(schedule, sizes)
    num_actions = 2 * sizes.num_cells * sizes.num_units * len(tried)
    if num_actions > _MOST_ACTIONS:
        raise InputError(
            value=EVERY,
            rule=_(
                "must be a number where all {count} sizes together have more than {most} actions (here {actions})",
                count=f"{len(tried):,}",
                most=f"{_MOST_ACTIONS:,}",
                actions=f"{num_actions:,}",
            ),
            place=_OPTION,
            remedy=_("give a number, or let evenflow plan choose within its time limit"),
        )

    def cost(simulation: Simulation) -> tuple[bool, int, int, int]:
        peaks = simulation.peak_memory_bytes
        return not simulation.fits(memory_limit_bytes), simulation.makespan_ns, max(peaks), sum(peaks)

    best = min(map(simulated, tried), key=cost)
    if len(tried) == 1:
        return best, _("these sizes have one group size only")
    size = best.plan.group_size
    chosen = _("as many as ranks") if size is None else str(size)
    if memory_limit_bytes is not None and best.fits(memory_limit_bytes):
        return best, _(
            "the best of {count} group sizes is {chosen}: no other gives a shorter step that fits",
            count=len(tried),
            chosen=chosen,
        )
    return best, _(
        "the best of {count} group sizes is {chosen}: no other gives a shorter step", count=len(tried), chosen=chosen
    )
