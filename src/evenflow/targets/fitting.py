"""A plan as a framework will really run it: what the framework cannot run is replaced by the nearest that it can."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import (
    FULL,
    NONE,
    Abilities,
    Cells,
    Communication,
    Network,
    Plan,
    Request,
    Scope,
    cells,
    whole_blocks_of,
)
from evenflow.schedule import FAMILIES, family_name
from evenflow.simulate import Simulation, compared_families, simulate
from evenflow.solve import ProgressCallback
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.losses import Loss, on_other_ranks, priced_loss, priced_losses
from evenflow.targets.refusal import refusal
from evenflow.targets.whole_blocks import in_layers, in_whole_blocks, with_nearest_cut


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A plan that a framework can run, made from one that it may not be able to run."""

    plan: Plan
    simulation: Simulation
    losses: tuple[Loss, ...] = ()
    """What was given up, in the order in which it was; empty where the plan stayed as it was."""


def fitted(
    plan: Plan,
    network: Network,
    communication: Communication | None,
    limit: int | None,
    abilities: Abilities,
    title: str,
    *,
    allow_empty: bool = True,
    time_limit_s: float = 20.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Fitted:
    """Return `plan` as a framework with these abilities runs it, within `limit` bytes on every rank where that can be.

    The cut is kept where the framework has such cuts, and so are schedule and group size; the solver chooses the rest.
    Of plans with the same cut that are `known`, it is no longer than those that it could be.
    Where it must cut anew, cells may be empty with `allow_empty`. Without a limit it keeps to the memory of `plan`.
    Where nothing fits, the plan that comes nearest to fitting is returned, which is over the limit.

    Raises:
        InputError: the framework runs no plan of these sizes at all; or no plan was found in the time given.
    """
    if network.keeps_for_others and not any(simulate(network, plan, communication=communication).pool_bytes):
        network = network.without_keepers()  # the plan makes no use of them
    if refusal(plan, abilities, title=title) is None:
        network = abilities.as_run(network, title=title)
    planned = simulate(network, plan, communication=communication)
    if refusal(plan, abilities, title=title) is None:
        return _as_run(planned, abilities, title)
    blocks = None if abilities.parts_blocks else whole_blocks_of(network)
    if blocks is not None:
        whole = in_whole_blocks(plan, blocks)
        if whole is not None:
            return fitted(
                whole, blocks.network, communication, limit, abilities, title,
                allow_empty=allow_empty, time_limit_s=time_limit_s, progress=progress,
            )  # fmt: skip
        network, plan, known = blocks.network, with_nearest_cut(plan, blocks), ()
    asked = Request(
        network=network,
        sizes=plan.sizes,
        memory_limit_bytes=(max(planned.peak_memory_bytes) if limit is None else limit) if network.has_memory else None,
        communication=communication,
    )

    left, pool = TimeLeft.of(time_limit_s), [plan, *known]

    def nearest(schedules: Sequence[str], layers: Cells | None) -> Simulation | None:
        """Return the best plan within the limit, or within the smallest limit that does."""
        request = replace(asked, allow_empty=allow_empty if layers is None else any(0 in row for row in layers))
        for _attempt in range(2):
            search = ContestSearch(
                num_chunks=(plan.num_chunks,),
                layers=None if layers is None else {plan.num_chunks: layers},
                group_sizes="usual" if plan.group_size is None else "every",
                time_limit_s=left.seconds / 2,  # others may follow; with none left, the best that is known is taken
                progress=progress,
                known=tuple(pool),
            )
            outcome = solve_for_target(request, abilities, search, title=title, schedules=schedules).outcome
            if outcome.plan is not None:
                pool.append(outcome.plan)
            if outcome.infeasibility is None:
                break
            request = replace(request, memory_limit_bytes=outcome.infeasibility.smallest_limit_bytes)
        return outcome.simulation

    def cost(simulation: Simulation) -> tuple[bool, int, int]:
        peak, step_ns = max(simulation.peak_memory_bytes), simulation.makespan_ns
        return (False, step_ns, peak) if simulation.fits(asked.memory_limit_bytes) else (True, peak, step_ns)

    choices: Iterable[Simulation | None]
    if plan.order and abilities.own_order:  # the solver plans under orders of families alone
        choices = (
            simulate(network, other, communication=communication)
            for other in _other_recomputation(plan, network.kinds, abilities)
            if refusal(other, abilities, title=title) is None
        )
    else:
        choices = _until_interrupted(
            nearest(names, layers if blocks is None else None)
            for names, layers in _choices(plan, abilities, compared_families(network, communication), title)
        )
    found = min(filter(None, choices), key=cost, default=None)
    if found is None:
        raise InputError(
            value=plan.schedule,
            rule=_("must be near a plan that {title} runs, and none was found in the time given", title=title),
            place=_("the plan"),
            remedy=_("plan for it with --target"),
        )
    in_same_layers = found
    if blocks is not None:
        in_same_layers = simulate(planned.network, in_layers(found.plan, blocks), communication=communication)
    losses = tuple(priced_losses(planned, in_same_layers, abilities, title))
    return Fitted(plan=found.plan, simulation=found, losses=losses)


def _as_run(planned: Simulation, abilities: Abilities, title: str) -> Fitted:
    """Return a plan that a framework takes as it is: of pairs that it has not, it runs one part after the other."""
    plan, schedule = planned.plan, planned.timeline.schedule
    if not schedule.has_pairs or plan.schedule in abilities.with_equal_pairs.schedules:
        return Fitted(plan=plan, simulation=planned)
    in_turn = simulate(planned.network, plan, schedule=schedule.in_turn(), communication=planned.communication)
    sentence = _("{title} runs both parts of a pair one after the other", title=title)
    return Fitted(plan=plan, simulation=in_turn, losses=(priced_loss(sentence, planned, in_turn),))


def _until_interrupted(choices: Iterator[Simulation | None]) -> Iterator[Simulation | None]:
    """Yield choices, and no more once a signal has come: the best of those that are there is the answer."""
    for each in choices:
        yield each
        if was_interrupted():
            return


def _other_recomputation(plan: Plan, offered: Sequence[str], abilities: Abilities) -> Iterator[Plan]:
    """Yield plans with the cut and the order of `plan` that recompute in the ways of the framework; not all of them."""
    totals = plan.layers
    recomputed = [
        [total - plan.count(NONE, chunk, rank) for rank, total in enumerate(row)] for chunk, row in enumerate(totals)
    ]
    whole = [
        [total if some else 0 for total, some in zip(*rows, strict=True)]
        for rows in zip(totals, recomputed, strict=True)
    ]
    yield replace(plan, recompute={}, moved_share=None)
    for way in abilities.recomputation:
        kinds = [kind for kind in way.kinds if kind in offered]
        if way.scope is Scope.COUNT and kinds:
            for most in range(1, max(map(max, totals)) + 1):
                counts = [[min(most, total) for total in row] for row in totals]
                yield replace(plan, recompute={FULL: cells(counts)}, moved_share=None)
        else:
            for kind in kinds:
                tables = [{kind: cells(table)} for table in (recomputed, whole, totals)]
                yield from (replace(plan, recompute=table, moved_share=None) for table in tables)


def _choices(
    plan: Plan, abilities: Abilities, compared: Sequence[str], title: str
) -> Iterator[tuple[tuple[str, ...], Cells | None]]:
    """Yield schedules that come into question, with the layers of their cells; None where these must be chosen anew.

    They are the plan's own where the framework runs it, else those of the framework that are `compared`.
    """
    names = [family_name(name) for name in abilities.schedules]
    is_run = plan.schedule in names or (abilities.own_order and plan.schedule in FAMILIES)
    names = [plan.schedule] if is_run else [name for name in names if name in compared]
    fits = [name for name in names if FAMILIES[name].has_chunks(plan.num_chunks)]
    able = [name for name in fits if not any(abilities.refusals(plan.sizes, name, title=title))]
    if not able:
        raise _no_schedule(plan, fits, abilities, title)
    for is_v_shaped in (False, True):
        schedules = tuple(name for name in able if FAMILIES[name].is_v_shaped == is_v_shaped)
        if schedules:
            moved = on_other_ranks(plan, replace(plan, schedule=schedules[0], order=(), group_size=None))
            yield schedules, None if _recuts(moved, abilities, title) else moved.layers


def _no_schedule(plan: Plan, names: Sequence[str], abilities: Abilities, title: str) -> InputError:
    """Return why no schedule of the framework has the sizes of the plan."""
    remedy = _("plan for it with --target, or write the plan for another framework")
    found = [each for name in (*names, plan.schedule) for each in abilities.refusals(plan.sizes, name, title=title)]
    sizes = [each for each in found if each.place != "schedule"]
    if sizes:  # another schedule would not help
        return InputError(value=sizes[0].value, rule=sizes[0].rule, place=sizes[0].place, remedy=remedy)
    names_of_all = ", ".join(abilities.schedules)
    return InputError(
        value=plan.num_chunks,
        rule=_("must be a number that a schedule of {title} has: {names}", title=title, names=names_of_all),
        place="chunks",
        remedy=remedy,
    )


def _recuts(plan: Plan, abilities: Abilities, title: str) -> bool:
    """Return whether the framework has no such cut, whatever the schedule and the recomputation."""
    plain = replace(plan, recompute={}, moved_share=None, order=(), group_size=None)
    refused = refusal(plain, replace(abilities, own_order=True), title=title)
    return refused is not None and refused.place.startswith("layers")
