"""What the exact solver adds to a two-level plan: uneven layers, recomputation layer by layer, another schedule.

Equation 2 gives a stage one sharding and one recompute kind and assumes that messages cost nothing in the steady
state. Where all stages have equal submeshes the pipeline is an ordinary one with submeshes as ranks: evenflow's solver
then chooses layers and recomputation of every cell under the exact simulation, for several schedules.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.auto.stages.candidates import StageProvider
from evenflow.auto.stages.inter_operator import TwoLevelPlan
from evenflow.cluster.resharding import plan_resharding
from evenflow.model import Request, Sizes
from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Timeline, run
from evenflow.solve import Outcome, solve

VARIANTS = (("1f1b", 1), ("eager-1f1b", 1), ("zb-h1", 1), ("interleaved", 2))
"""Schedules and chunks a rank that are tried."""


@dataclass(frozen=True, kw_only=True)
class Refined:
    """One sharding for all ranks, one schedule, and the solver's outcome."""

    sharding: str
    schedule: str
    num_chunks: int
    outcome: Outcome
    timeline: Timeline | None
    """The outcome's plan, each message with its own time; None where there is no plan."""


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """What was tried, beside the two-level plan."""

    two_level_ns: int
    """The simulated step of the two-level plan."""
    tried: tuple[Refined, ...]

    @property
    def best(self) -> Refined | None:
        """The one with the shortest step, if it is shorter than the two-level plan's."""
        found = [one for one in self.tried if one.timeline and one.timeline.makespan_ns < self.two_level_ns]
        return min(found, key=_makespan_ns, default=None)

    @property
    def saved(self) -> float:
        """The part of the two-level plan's step that the best one saves."""
        return 1 - _makespan_ns(self.best) / self.two_level_ns if self.best else 0.0


def refine(two_level: TwoLevelPlan, provider: StageProvider, *, time_limit_s: float = 60.0) -> Refinement | None:
    """Solve the pipeline exactly on the submeshes of `two_level`, for each of its shardings and each schedule.

    The time is shared out equally. The solver takes the slowest message for all; what it finds is then simulated with
    each message's own time. None where submeshes differ: the solver knows equal ranks only.
    """
    stages = two_level.stages
    if len({stage.submesh for stage in stages}) > 1:
        return None
    variants = [
        (sharding, schedule, num_chunks)
        for sharding in dict.fromkeys(stage.cost.sharding for stage in stages)
        for schedule, num_chunks in (VARIANTS if len(stages) > 1 else VARIANTS[:1])
        if stages[-1].end >= num_chunks * len(stages)
    ]
    tried = []
    for sharding, schedule, num_chunks in variants:
        request = Request(
            network=provider.network_on(stages[0].submesh, sharding),
            sizes=Sizes(num_ranks=len(stages), num_chunks=num_chunks, num_microbatches=two_level.num_microbatches),
            memory_limit_bytes=two_level.cluster.memory_bytes,
            mix_any=True,
            communication=two_level.communication,
        )
        outcome = solve(request, schedule=schedule, time_limit_s=time_limit_s / len(variants))
        timeline = _simulated(two_level, provider, sharding, outcome)
        tried.append(
            Refined(sharding=sharding, schedule=schedule, num_chunks=num_chunks, outcome=outcome, timeline=timeline)
        )
    return Refinement(two_level_ns=two_level.timeline.makespan_ns, tried=tuple(tried))


def _simulated(two_level: TwoLevelPlan, provider: StageProvider, sharding: str, outcome: Outcome) -> Timeline | None:
    """The outcome's plan with the messages between its stages."""
    if outcome.simulation is None:
        return None
    timeline = outcome.simulation.timeline
    schedule = timeline.schedule
    layers = np.zeros(schedule.num_stages, dtype=np.int64)
    layers[schedule.stage_table] = outcome.simulation.plan.layers
    messages = np.zeros((schedule.num_stages, NUM_OPS), dtype=np.int64)
    for stage, first in enumerate(np.cumsum(layers)[:-1].tolist()):
        ranks = schedule.stage_ranks[stage], schedule.stage_ranks[stage + 1]
        before, after = (two_level.stages[rank] for rank in ranks)
        sender = provider.boundary(first, before.submesh, sharding, before.devices, leaving=True)
        receiver = provider.boundary(first, after.submesh, sharding, after.devices)
        messages[stage + 1, Op.F] = plan_resharding(sender, receiver, two_level.cluster).cost_ns
        messages[stage, Op.B] = messages[stage, Op.I] = plan_resharding(receiver, sender, two_level.cluster).cost_ns
    return run(timeline.graph, outcome.simulation.costs.durations, messages.reshape(-1))


def _makespan_ns(refined: Refined) -> int:
    assert refined.timeline is not None
    return refined.timeline.makespan_ns
