"""Plans as people write them by hand: one plain way in a pipeline of equal stages, at the planner's costs.

Equal submeshes, layers dealt evenly by their number, one plain way and one recompute kind for all stages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from evenflow.cluster import Submesh, submeshes
from evenflow.language import _
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.in_flight import assumed_schedule, in_flight_microbatches
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.stage_provider import StageCost
from evenflow_torch.auto.stages.two_level_plan import (
    PlainGrid,
    StageChoice,
    StagesOutcome,
    TwoLevelPlan,
    equation_ns,
    even_bounds,
    laid_out,
)


def with_plain_grids(
    outcome: StagesOutcome,
    provider: ShardedStages,
    *,
    schedule: str,
    num_stages: int | None = None,
    deadline: Deadline | None = None,
) -> StagesOutcome:
    """Return the outcome with all plain grids on its cluster, or those of so many stages, simulated if they fit.

    From `deadline` on those that are left, the longest by equation 2, are not there.
    """
    bound_ns = outcome.plan.lower_bound_ns if outcome.plan else 0
    grids = [
        replace(grid, plan=replace(grid.plan, lower_bound_ns=min(bound_ns, grid.plan.step_ns))) if grid.plan else grid
        for grid in plain_grids(provider, schedule=schedule)
        if num_stages in (None, grid.num_stages)
    ]
    if deadline is not None:
        grids = _simulated(grids, deadline)
    return replace(outcome, grids=tuple(sorted(grids, key=_order)))


def _simulated(grids: list[PlainGrid], deadline: Deadline) -> list[PlainGrid]:
    """Simulate grids while there is time, and at least one, the shortest by equation 2 first."""
    has_one = False
    reached = []
    for grid in sorted(grids, key=lambda grid: grid.plan.step_ns if grid.plan else 0):
        if grid.plan and deadline.is_over and has_one:
            reached.append(replace(grid, plan=None, reason=_("no time was left to simulate it")))
            continue
        if grid.plan:
            has_one = grid.plan.timeline.makespan_ns > 0
        reached.append(grid)
    return reached


def plain_grids(provider: ShardedStages, *, schedule: str) -> Iterator[PlainGrid]:
    """Yield a grid for every submesh that divides the cluster and leaves a layer to each, under each of its ways."""
    cluster, num_layers = provider.cluster, len(provider.kinds)
    for submesh in submeshes(cluster):
        count, rest = divmod(cluster.num_devices, submesh.num_devices)
        if rest or count > num_layers:
            continue
        bounds = even_bounds(num_layers, count)
        for sharding, reason in provider.plain(submesh):
            if reason:
                yield PlainGrid(submesh=submesh, sharding=sharding, num_stages=count, plan=None, reason=reason)
            else:
                yield _grid(provider, submesh, sharding, bounds, assumed_schedule(schedule))


def _grid(
    provider: ShardedStages, submesh: Submesh, sharding: MeshSharding, bounds: Sequence[int], schedule: str
) -> PlainGrid:
    """Return the grid under the recompute kind with which it is fastest within memory."""
    count = len(bounds) - 1
    grid = PlainGrid(submesh=submesh, sharding=sharding, num_stages=count, plan=None)
    live = in_flight_microbatches(schedule, num_microbatches=provider.num_microbatches, most_stages=count)
    by_stage = [provider.stage_costs(first, end, submesh, sharding) for first, end in pairwise(bounds)]
    fitting: list[tuple[int, int, tuple[StageCost, ...]]] = []
    least = None
    for costs in zip(*by_stage, strict=True):
        held = max(cost.static_bytes + live[count - place] * cost.activation_bytes for place, cost in enumerate(costs))
        least = held if least is None else min(held, least)
        if held <= provider.cluster.memory_bytes:
            fitting.append((equation_ns(provider, bounds, submesh, [cost.cost_ns for cost in costs]), held, costs))
    if not fitting:
        return replace(grid, memory_bytes=least)
    step_ns, held, costs = min(fitting, key=lambda entry: entry[:2])
    plan = _plan(provider, submesh, bounds, costs, schedule, step_ns)
    return replace(grid, plan=plan, memory_bytes=held)


def priced_grids(
    provider: ShardedStages, bounds: Sequence[int], recompute: str, *, schedule: str
) -> Iterator[TwoLevelPlan]:
    """Yield the pipeline with these bounds of layers, on equal submeshes, under each sharding of their size.

    All layers have one recompute kind; pipelines that do not fit in memory are yielded too.
    """
    size = provider.cluster.num_devices // (len(bounds) - 1)
    for submesh in (submesh for submesh in submeshes(provider.cluster) if submesh.num_devices == size):
        for sharding in provider.shardings(submesh):
            by_stage = [provider.stage_costs(first, end, submesh, sharding) for first, end in pairwise(bounds)]
            costs = [cost for some in by_stage for cost in some if cost.recompute == recompute]
            if len(costs) == len(by_stage):
                step_ns = equation_ns(provider, bounds, submesh, [cost.cost_ns for cost in costs])
                plan = _plan(provider, submesh, bounds, costs, assumed_schedule(schedule), step_ns)
                yield replace(plan, lower_bound_ns=step_ns)


def _plan(
    provider: ShardedStages,
    submesh: Submesh,
    bounds: Sequence[int],
    costs: Sequence[StageCost],
    schedule: str,
    step_ns: int,
) -> TwoLevelPlan:
    chosen = [
        StageChoice(first, end, submesh, cost) for (first, end), cost in zip(pairwise(bounds), costs, strict=True)
    ]
    return laid_out(provider, chosen, schedule=schedule, step_ns=step_ns, lower_bound_ns=0)


def _order(grid: PlainGrid) -> tuple[bool, bool, int]:
    """Return the sort key of a grid: those that fit by step, others by memory, then those that do not exist."""
    if grid.plan:
        return False, False, grid.plan.timeline.makespan_ns
    return True, grid.memory_bytes is None, grid.memory_bytes or 0
