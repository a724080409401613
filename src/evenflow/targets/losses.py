"""What is given up of a plan for a framework, priced one part after the other, each simulated.

First the order of work, then the groups of microbatches, then the cut, and recomputation last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.language import _
from evenflow.model import Abilities, Cells, Plan, Scope, cells
from evenflow.schedule import make_schedule, schedule_of, usual_group_size
from evenflow.simulate import Simulation, simulate
from evenflow.targets.refusal import refusal
from evenflow.units import GIGABYTE, MEGABYTE


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


def on_other_ranks(plan: Plan, other: Plan) -> Plan:
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


def priced_losses(planned: Simulation, found: Simulation, abilities: Abilities, title: str) -> Iterator[Loss]:
    """Yield what `found` gives up of `planned`, priced one after the other."""
    before = planned
    for what, plan in _steps(planned.plan, found.plan, abilities, title):
        after = simulate(planned.network, plan, communication=planned.communication)
        yield priced_loss(what, before, after)
        before = after


def priced_loss(what: str, before: Simulation, after: Simulation) -> Loss:
    """Return what is given up between two plans, or two ways to run one, with its price."""
    peak = max(after.peak_memory_bytes)
    return Loss(
        what=what,
        step_ns=after.makespan_ns,
        longer_ns=after.makespan_ns - before.makespan_ns,
        peak_bytes=peak,
        more_bytes=peak - max(before.peak_memory_bytes),
        rank=after.peak_memory_bytes.index(peak),
    )


def _steps(plan: Plan, found: Plan, abilities: Abilities, title: str) -> Iterator[tuple[str, Plan]]:
    """Yield each replacement in words, with the plan after it; the last plan is `found`."""
    now = plan
    if plan.order != found.order or plan.schedule != found.schedule:
        other = {"title": title, "other": found.schedule}
        what = _("{title} does not run {schedule}, and runs {other}", schedule=plan.schedule, **other)
        if plan.order:
            what = _("{title} runs no order of a plan's own, and runs {other}", **other)
        now = on_other_ranks(now, replace(now, schedule=found.schedule, order=(), group_size=found.group_size))
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
        if now.continuing_layers and not abilities.parts_blocks:
            what = _("{title} has no cut inside a block", title=title)
        elif abilities.decides_cut(now.num_chunks):
            what = _("{title} deals out the layers by itself", title=title)
        yield what, found
    elif _used(now) != _used(found):
        yield _recompute_loss(now, abilities, title), found


def _recompute_loss(plan: Plan, abilities: Abilities, title: str) -> str:
    """Return what recomputation there is in the place of that of `plan`."""
    if refusal(replace(plan, order=()), replace(abilities, schedules=(plan.schedule,)), title=title) is None:
        return _("recomputation is chosen anew for it")
    known = abilities.recompute_kinds
    unknown = [kind for kind in plan.used_kinds if kind not in known]
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
    return {kind: plan.recompute[kind] for kind in plan.used_kinds}


def _signed(size_bytes: int) -> str:
    """Return a change of memory, such as ``+2.1 GB``."""
    if abs(size_bytes) >= GIGABYTE:
        return f"{size_bytes / GIGABYTE:+.1f} GB"
    return f"{size_bytes / MEGABYTE:+,.0f} MB"
