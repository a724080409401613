"""A plan as a framework will really run it: what the framework cannot run is replaced by the nearest that it can.

What is given up is priced one part after the other, each simulated: first the order of work, then the groups of
microbatches, then the cut, and recomputation last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Abilities, Cells, Communication, Network, Plan, Request, Scope, cells
from evenflow.schedule import FAMILIES, family_name, make_schedule, schedule_of, usual_group_size
from evenflow.simulate import Simulation, simulate
from evenflow.solve import ProgressCallback
from evenflow.solve.for_target import solve_for_target
from evenflow.targets.refusal import refusal
from evenflow.units import MEGABYTE

_GIGABYTE = 1024 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A part of a plan that a framework cannot run, and what its replacement costs."""

    what: str
    """The part and its replacement, as a clause."""
    step_ns: int
    """Time of one step with the replacement, and with those before it."""
    longer_ns: int
    """Time that the replacement adds to a step; below zero where it saves some."""
    peak_bytes: int
    """Highest memory of any rank with the replacement."""
    more_bytes: int
    """Memory that the replacement adds to the highest; below zero where it saves some."""
    rank: int
    """Rank with the highest memory."""

    @property
    def sentence(self) -> str:
        """The part, its replacement and the price."""
        percent = 100 * self.longer_ns / (self.step_ns - self.longer_ns)
        time = _("as fast")
        if round(percent, 1):
            time = (
                _("{percent:.1f} % slower", percent=percent)
                if percent > 0
                else _("{percent:.1f} % faster", percent=-percent)
            )
        memory = _("same peak")
        if abs(self.more_bytes) >= MEGABYTE // 2:
            memory = _("peak {change} on rank {rank}", change=_signed(self.more_bytes), rank=self.rank)
        return _("{what}: {time}, {memory}", what=self.what, time=time, memory=memory)


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
    time_limit_s: float = 20.0,
    progress: ProgressCallback | None = None,
) -> Fitted:
    """Return `plan` as a framework with these abilities runs it, within `limit` bytes on every rank where that can be.

    The cut is kept where the framework has such cuts, and so are schedule and group size; the solver chooses the rest.
    Without a limit it keeps to the memory of `plan`. Where nothing fits, the plan that comes nearest to fitting is
    returned, which is over the limit.

    Raises:
        InputError: the framework runs no plan of these sizes at all; or no plan was found in the time given.
    """
    planned = simulate(network, plan, communication=communication)
    if refusal(plan, abilities, title=title) is None:
        return Fitted(plan=plan, simulation=planned)
    asked = Request(
        network=network,
        sizes=plan.sizes,
        memory_limit_bytes=(max(planned.peak_memory_bytes) if limit is None else limit) if network.has_memory else None,
        communication=communication,
    )

    def nearest(schedules: Sequence[str], layers: Cells | None) -> Simulation | None:
        """Return the best plan within the limit, or within the smallest limit that does."""
        request = replace(asked, allow_empty=layers is not None and any(0 in row for row in layers))
        for _attempt in range(2):
            outcome = solve_for_target(
                request,
                abilities,
                title=title,
                schedules=schedules,
                num_chunks=(plan.num_chunks,),
                layers=None if layers is None else {plan.num_chunks: layers},
                group_sizes="usual" if plan.group_size is None else "every",
                time_limit_s=time_limit_s / 2,
                progress=progress,
            ).outcome
            if outcome.infeasibility is None:
                break
            request = replace(request, memory_limit_bytes=outcome.infeasibility.smallest_limit_bytes)
        return outcome.simulation

    def cost(simulation: Simulation) -> tuple[bool, int, int]:
        peak, step_ns = max(simulation.peak_memory_bytes), simulation.makespan_ns
        return (False, step_ns, peak) if simulation.fits(asked.memory_limit_bytes) else (True, peak, step_ns)

    choices = [nearest(*choice) for choice in _choices(plan, abilities, title)]
    found = min(filter(None, choices), key=cost, default=None)
    if found is None:
        raise InputError(
            value=plan.schedule,
            rule=_("must be near a plan that {title} runs, and none was found in the time given", title=title),
            place=_("the plan"),
            remedy=_("plan for it with --target"),
        )
    return Fitted(plan=found.plan, simulation=found, losses=tuple(_losses(planned, found, abilities, title)))


def _choices(plan: Plan, abilities: Abilities, title: str) -> Iterator[tuple[tuple[str, ...], Cells | None]]:
    """Yield schedules that come into question, with the layers of their cells; None where these must be chosen anew."""
    names = [family_name(name) for name in abilities.schedules]
    names = [plan.schedule] if plan.schedule in names else names
    fits = [
        name
        for name in names
        if FAMILIES[name].num_chunks in (None, plan.num_chunks) and plan.num_chunks >= FAMILIES[name].fewest_chunks
    ]
    able = [name for name in fits if not any(abilities.refusals(plan.sizes, name, title=title))]
    if not able:
        raise _no_schedule(plan, fits, abilities, title)
    for is_v_shaped in (False, True):
        schedules = tuple(name for name in able if FAMILIES[name].is_v_shaped == is_v_shaped)
        if schedules:
            moved = _on_other_ranks(plan, replace(plan, schedule=schedules[0], order=(), group_size=None))
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
    plain = replace(plan, recompute={}, order=(), group_size=None)
    refused = refusal(plain, replace(abilities, own_order=True), title=title)
    return refused is not None and refused.place.startswith("layers")


def _on_other_ranks(plan: Plan, other: Plan) -> Plan:
    """Return `other`, which has another schedule, with the stages of `plan` in the order of the network."""
    before = schedule_of(plan).stage_table.tolist()
    after = make_schedule(
        other.schedule,
        num_ranks=plan.num_ranks,
        num_chunks=plan.num_chunks,
        num_microbatches=plan.num_microbatches,
        sequence_splits=plan.sequence_splits,
    ).stage_table.tolist()

    def moved(table: Cells) -> Cells:
        of_stage = {stage: table[chunk][rank] for chunk, row in enumerate(before) for rank, stage in enumerate(row)}
        return cells([[of_stage[stage] for stage in row] for row in after])

    return replace(
        other, layers=moved(plan.layers), recompute={kind: moved(table) for kind, table in plan.recompute.items()}
    )


def _losses(planned: Simulation, found: Simulation, abilities: Abilities, title: str) -> Iterator[Loss]:
    """Yield what `found` gives up of `planned`, priced one after the other."""
    before = planned
    for what, plan in _steps(planned.plan, found.plan, abilities, title):
        after = simulate(planned.network, plan, communication=planned.communication)
        peak = max(after.peak_memory_bytes)
        yield Loss(
            what=what,
            step_ns=after.makespan_ns,
            longer_ns=after.makespan_ns - before.makespan_ns,
            peak_bytes=peak,
            more_bytes=peak - max(before.peak_memory_bytes),
            rank=after.peak_memory_bytes.index(peak),
        )
        before = after


def _steps(plan: Plan, found: Plan, abilities: Abilities, title: str) -> Iterator[tuple[str, Plan]]:
    """Yield each replacement in words, with the plan after it; the last plan is `found`."""
    now = plan
    if plan.order or plan.schedule != found.schedule:
        other = {"title": title, "other": found.schedule}
        what = _("{title} does not run {schedule}, and runs {other}", schedule=plan.schedule, **other)
        if plan.order:
            what = _("{title} runs no order of a plan's own, and runs {other}", **other)
        now = _on_other_ranks(now, replace(now, schedule=found.schedule, order=(), group_size=found.group_size))
        yield what, now
    elif plan.group_size != found.group_size:
        now = replace(now, group_size=found.group_size)
        usual = usual_group_size(plan.sizes)
        size = found.group_size or usual
        yield (
            _("groups of {size} microbatches in the place of {before}", size=size, before=plan.group_size or usual),
            now,
        )
    if now.layers != found.layers:
        what = _("{title} has no stage without layers there", title=title)
        if abilities.even_cut:
            what = _("{title} has equally many layers in every stage", title=title)
        yield what, found
    elif _used(now) != _used(found):
        yield _recompute_loss(now, found, abilities, title), found


def _recompute_loss(plan: Plan, found: Plan, abilities: Abilities, title: str) -> str:
    """Return what recomputation there is in the place of that of `plan`."""
    if refusal(replace(plan, order=()), replace(abilities, schedules=(plan.schedule,)), title=title) is None:
        return _("recomputation is chosen anew for it")
    known = {kind for way in abilities.recomputation for kind in way.kinds}
    unknown = [kind for kind in _used(plan) if kind not in known]
    if unknown:
        return _("{title} has no recomputation {kinds}", title=title, kinds=", ".join(unknown))
    scopes = {way.scope for way in abilities.recomputation}
    if Scope.LAYERS in scopes:
        return _("{title} has no such mixture of recomputation in a stage", title=title)
    if Scope.CELL in scopes:
        return _("recompute is all or nothing for each stage on {title}", title=title)
    if Scope.COUNT in scopes:
        return _("recompute is one number on {title}", title=title)
    return _("recompute is the same for all layers on {title}", title=title)


def _used(plan: Plan) -> dict[str, Cells]:
    return {kind: table for kind, table in plan.recompute.items() if any(map(any, table))}


def _signed(size_bytes: int) -> str:
    """Return a change of memory, such as ``+2.1 GB``."""
    if abs(size_bytes) >= _GIGABYTE:
        return f"{size_bytes / _GIGABYTE:+.1f} GB"
    return f"{size_bytes / MEGABYTE:+,.0f} MB"
