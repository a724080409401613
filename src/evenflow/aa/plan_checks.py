"""The checks of every rank, from the simulated timeline of a step. [uneven VPP talk, part 2]

One way for all schedules: the bubbles are the gaps of a simulated timeline, wherever a family has them. What goes into
a gap is no longer than the gap, so the step is no longer either.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.aa.rank_checks import RankChecks
from evenflow.aa.work import Direction
from evenflow.model import Communication
from evenflow.schedule import Op
from evenflow.simulate import StageCosts, Timeline, memory_changes, peak_bytes
from evenflow.simulate.even_layout import even_layout


def plan_checks(
    timeline: Timeline,
    costs: StageCosts,
    *,
    compare_ns: Sequence[int] | None = None,
    communication: Communication | None = None,
    everywhere: bool = False,
    memory_limit_bytes: int | None = None,
) -> tuple[RankChecks, ...]:
    """Choose the checks that each rank can do without making the step longer.

    Of two layouts with the same order and the same makespan, one with every action as early as it can and one with the
    gaps gathered, it takes the one that holds more. Checks may hold the activations of one more microbatch of a stage
    than the step's own peak, but with a memory limit never more than that leaves.

    Args:
        timeline: the step as predicted, run with `communication`.
        costs: of the stages, as in the timeline.
        compare_ns: how long the comparison of a stage's gradients takes, by stage; by default no time.
        everywhere: also what fits no gap, at a cost.
        memory_limit_bytes: of every rank.
    """
    schedule = timeline.schedule
    times = {Direction.FORWARD: costs.forward_ns.tolist(), Direction.BACKWARD: costs.backward_ns.tolist()}
    compare_ns = compare_ns or [0] * schedule.num_stages
    directions = list(Direction)[: 1 if schedule.is_forward_only else 2]
    plans = []
    for layout in (timeline, even_layout(timeline)):
        ranks = []
        for rank in range(schedule.num_ranks):
            span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
            starts, ends = layout.start_ns[span].tolist(), layout.end_ns[span].tolist()
            own = [stage for stage in range(schedule.num_stages) if schedule.stage_ranks[stage] == rank]
            work_ns = {
                (stage, direction): times[direction][stage]
                for stage in own
                for direction in directions
                # Where nothing is trained, a backward has nothing that could be done again.
                if direction is Direction.FORWARD or times[direction][stage] or not times[Direction.FORWARD][stage]
            }
            following = [*starts[1:], layout.makespan_ns]
            activations, room = _memory(timeline, costs, rank, own, memory_limit_bytes)
            ranks.append(
                RankChecks(
                    order=tuple(schedule.order(rank)),
                    gaps_ns=tuple(after - end for end, after in zip(ends, following, strict=True)),
                    costs_ns={item: work + compare_ns[item[0]] for item, work in work_ns.items()},
                    work_ns=work_ns,
                    activation_bytes=activations,
                    room_bytes=room,
                    everywhere=everywhere,
                )
            )
        plans.append(tuple(ranks))
    return min(plans, key=lambda ranks: sum(len(rank.uncovered) for rank in ranks))


def _memory(
    timeline: Timeline, costs: StageCosts, rank: int, stages: Sequence[int], memory_limit_bytes: int | None
) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return the activations of stages, and what may be held beside them behind each action of a rank."""
    schedule = timeline.schedule
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    if costs.activation_bytes.any():
        activations = {stage: int(costs.activation_bytes[stage]) for stage in stages}
        changes = memory_changes(schedule, costs, span)
    else:  # nothing is known of memory: all activations count alike
        activations = dict.fromkeys(stages, 1)
        changes = np.choose(schedule.ops[span], [{Op.F: 1, Op.B: -1, Op.I: 0, Op.W: -1}[op] for op in Op])
        memory_limit_bytes = None
    live = np.zeros(len(changes), dtype=np.int64) if schedule.is_forward_only else np.cumsum(changes)
    most = int(live.max(initial=0)) + max(activations.values(), default=0)
    if memory_limit_bytes is not None:
        peak = int(peak_bytes(schedule, costs)[rank])
        most = min(most, memory_limit_bytes - peak + int(live.max(initial=0)))
    return activations, tuple((most - live).tolist())
