"""Refines a two-level plan by the exact solver: uneven layers, recomputation layer by layer, another schedule.

Equation 2 gives a stage one sharding and at most two recompute kinds and assumes that messages cost nothing in the
steady state. Where all stages have equal submeshes the pipeline is an ordinary one with submeshes as ranks: evenflow's
solver then chooses layers and recomputation of every cell under the exact simulation, for several schedules.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.cluster import plan_resharding
from evenflow.errors import Interrupted
from evenflow.interruption import was_interrupted
from evenflow.model import ANY_CONTENT, Plan, Request, Sizes
from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Timeline, run
from evenflow.solve import Outcome, Status
from evenflow.solve.binding import with_binding
from evenflow.solve.clock import Clock
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.race import Race, RaceSettings
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.stage_provider import StageProvider
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome, TwoLevelPlan

_FIRST_SECONDS = 2.0
"""Seconds of each pipeline in the first round; every further round has twice as many."""
_LEAST_GAIN = 1e-3
"""Share of the shortest step that a round must save for another one to follow."""
VARIANTS = (("1f1b", 1), ("eager-1f1b", 1), ("zb-h1", 1), ("interleaved", 2))
"""Schedules and chunks per rank that are tried."""


@dataclass(frozen=True, kw_only=True)
class Refined:
    """One sharding for all ranks, one schedule, and the solver's outcome."""

    sharding: MeshSharding
    schedule: str
    num_chunks: int
    outcome: Outcome
    timeline: Timeline | None
    """The outcome's plan, each message with its own time; None where there is no plan."""


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """The pipelines that were tried on the submeshes of a plan with equal ones."""

    base: TwoLevelPlan
    """The plan whose submeshes are the ranks."""
    two_level_ns: int
    """The simulated step of the two-level plan, which may have other submeshes."""
    tried: tuple[Refined, ...]

    @property
    def best(self) -> Refined | None:
        """The refined pipeline with the shortest step, if that is shorter than the two-level plan's."""
        shorter = [
            pipeline
            for pipeline in self.tried
            if pipeline.timeline and pipeline.timeline.makespan_ns < self.two_level_ns
        ]
        return min(shorter, key=_preference, default=None)

    @property
    def step_ns(self) -> int:
        """Nanoseconds of the shortest step: the best pipeline's, or the two-level plan's."""
        return _makespan_ns(self.best) if self.best else self.two_level_ns

    @property
    def saved(self) -> float:
        """The share of the two-level plan's step that the best one saves."""
        return 1 - _makespan_ns(self.best) / self.two_level_ns if self.best else 0.0


def refine(stages: StagesOutcome, provider: StageProvider, *, deadline: Deadline) -> Refinement | None:
    """Solve pipelines exactly on the equal submeshes of plans, for each of their shardings and each schedule.

    First the shortest plan with equal submeshes; then, for one round, those with other numbers of stages that would be
    shorter than all so far if their devices never waited. None where no plan has equal submeshes: the solver knows
    equal ranks only. A signal ends it with what was tried so far.
    """
    base = stages.shortest_equal
    if base is None or stages.shortest is None:
        return None
    best = _refined(base, stages.shortest, provider, deadline, max_rounds=None)
    equal = [plan for plan in stages.alternatives if len({stage.submesh for stage in plan.stages}) == 1]
    for plan in sorted(equal, key=_busy_ns):
        if len(plan.stages) in (1, len(base.stages)) or _busy_ns(plan) >= best.step_ns or was_interrupted():
            continue
        other = _refined(plan, stages.shortest, provider, deadline, max_rounds=1)
        best = min(best, other, key=lambda refinement: refinement.step_ns)
    return best


def _busy_ns(plan: TwoLevelPlan) -> float:
    """The time that a device works in a step, on average over all devices: what no waiting could shorten."""
    return plan.num_microbatches * sum(stage.cost.cost_ns for stage in plan.stages) / len(plan.stages)


def _refined(
    base: TwoLevelPlan, shortest: TwoLevelPlan, provider: StageProvider, deadline: Deadline, *, max_rounds: int | None
) -> Refinement:
    """Solve the pipelines of one plan's submeshes.

    What is not proven goes on in further rounds, until one brings next to nothing, the rounds or the time are over. The
    solver takes the slowest message for all; what it finds is then simulated with each message's own time.
    """
    variants = [
        (sharding, schedule, num_chunks)
        for sharding in dict.fromkeys(stage.cost.sharding for stage in base.stages)
        for schedule, num_chunks in (VARIANTS if len(base.stages) > 1 else VARIANTS[:1])
        if base.stages[-1].end >= num_chunks * len(base.stages)
    ]
    tried: dict[tuple[MeshSharding, str, int], Refined] = {}
    known = [base.pipeline]
    open_: dict[tuple[MeshSharding, str, int], tuple[Problem, Race] | None] = dict.fromkeys(variants)
    seconds, best_ns = _FIRST_SECONDS, math.inf
    num_rounds = 0
    while open_ and not deadline.is_over and num_rounds != max_rounds:
        num_rounds += 1
        for place, (variant, begun) in enumerate(tuple(open_.items())):
            left_s = deadline.left_s
            if not left_s:
                break
            problem, race = open_[variant] = begun or _race(base, provider, *variant, known=known)
            clock = Clock(limit_s=min(seconds, left_s / (len(open_) - place)))
            try:
                outcome = with_binding(race.run(clock), problem)
            except Interrupted:
                open_ = {}
                break
            known += [] if outcome.plan is None else [outcome.plan]
            timeline = _simulated(base, provider, variant[0], outcome)
            tried[variant] = Refined(
                sharding=variant[0], schedule=variant[1], num_chunks=variant[2], outcome=outcome, timeline=timeline
            )
        before_ns = best_ns
        best_ns = min((_makespan_ns(refined) for refined in tried.values() if refined.timeline), default=math.inf)
        if before_ns < math.inf and best_ns > before_ns * (1 - _LEAST_GAIN):
            break
        open_ = {
            variant: race
            for variant, race in open_.items()
            if variant not in tried or tried[variant].outcome.status in (Status.FEASIBLE, Status.TIMEOUT)
        }
        seconds *= 2
    return Refinement(
        base=base,
        two_level_ns=shortest.timeline.makespan_ns,
        tried=tuple(tried[variant] for variant in variants if variant in tried),
    )


def _race(
    base: TwoLevelPlan,
    provider: StageProvider,
    sharding: MeshSharding,
    schedule: str,
    num_chunks: int,
    *,
    known: Sequence[Plan] = (),
) -> tuple[Problem, Race]:
    """The exact problem of one sharding and schedule, and what solves it in rounds, from the best `known` cells."""
    request = Request(
        network=provider.network_on(base.stages[0].submesh, sharding),
        sizes=Sizes(num_ranks=len(base.stages), num_chunks=num_chunks, num_microbatches=base.num_microbatches),
        memory_limit_bytes=base.cluster.memory_bytes,
        cell_rule=ANY_CONTENT,
        allow_empty=False,
        communication=base.communication,
    )
    problem = make_problem(request, schedule=schedule)
    return problem, Race(problem, RaceSettings(known=known))


def _simulated(
    base: TwoLevelPlan, provider: StageProvider, sharding: MeshSharding, outcome: Outcome
) -> Timeline | None:
    """Return the timeline of the solver's plan with each message's own time."""
    if outcome.simulation is None:
        return None
    timeline = outcome.simulation.timeline
    schedule = timeline.schedule
    layers = np.zeros(schedule.num_stages, dtype=np.int64)
    layers[schedule.stage_table] = outcome.simulation.plan.layers
    messages = np.zeros((schedule.num_stages, NUM_OPS), dtype=np.int64)
    for stage, first in enumerate(np.cumsum(layers)[:-1].tolist()):
        ranks = schedule.stage_ranks[stage], schedule.stage_ranks[stage + 1]
        before, after = (base.stages[rank] for rank in ranks)
        sender = provider.boundary(first, before.submesh, sharding, before.devices, leaving=True)
        receiver = provider.boundary(first, after.submesh, sharding, after.devices)
        messages[stage + 1, Op.F] = plan_resharding(sender, receiver, base.cluster).cost_ns
        messages[stage, Op.B] = messages[stage, Op.I] = plan_resharding(receiver, sender, base.cluster).cost_ns
    return run(timeline.graph, outcome.simulation.costs.durations, messages.reshape(-1))


def _preference(refined: Refined) -> tuple[int, int]:
    """Sort key, smallest for the best: the simulated step, then layers that recompute."""
    plan = refined.outcome.plan
    return _makespan_ns(refined), 0 if plan is None else plan.num_recomputed


def _makespan_ns(refined: Refined) -> int:
    assert refined.timeline is not None
    return refined.timeline.makespan_ns
