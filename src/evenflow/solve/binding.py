"""The memory limits that bind a plan: a higher one would let the rank do better at once.

A limit binds on a rank where it keeps the rank from one of these changes, if no other rank gets a higher one:

    recompute less   one layer of the rank under a kind that recomputes less; the rank recomputes, and no such change
                     fits
    take a layer     one layer more, from the stage before or behind one of the rank's, which makes the step shorter

A change of the first kind never makes the step longer; whether it makes it shorter depends on other ranks too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenflow.interruption import was_interrupted
from evenflow.model import FULL, NONE, Plan
from evenflow.simulate import Integers, StageCosts, run
from evenflow.solve.outcome import BindingLimit, Outcome
from evenflow.solve.problem import Problem


def with_binding(outcome: Outcome, problem: Problem) -> Outcome:
    """Return `outcome` with the limits that bind its plan, which is one of `problem`; without them after a signal."""
    if outcome.plan is None or problem.memory_limit_bytes is None or outcome.interrupted or was_interrupted():
        return outcome
    return replace(outcome, binding=binding_limits(problem, outcome.plan))


def binding_limits(problem: Problem, plan: Plan) -> tuple[BindingLimit, ...]:
    """Return the limits that bind `plan`, of one rank each, in the order of ranks."""
    counts = problem.counts(plan)
    step = _Step.of(problem, problem.costs(counts))
    binding = []
    for rank in range(problem.num_ranks):
        needed = min(_peaks_recomputing_less(problem, counts, rank), default=0)
        takes_layer = needed <= problem.limit
        if takes_layer:
            needed = min(_peaks_taking_layer(problem, counts, rank, step), default=0)
        if needed > problem.limit:
            binding.append(BindingLimit(rank=rank, more_bytes=needed - problem.limit, takes_layer=takes_layer))
    return tuple(binding)


def _peaks_recomputing_less(problem: Problem, counts: Integers, rank: int) -> Iterator[int]:
    """Yield the peak of `rank` for each change of one of its layers to a kind that recomputes less."""
    kinds = range(len(problem.kinds))
    before = problem.costs(counts)
    for stage in problem.schedule.stage_table[:, rank]:
        for old, new in ((old, new) for old in kinds for new in kinds if new != old and counts[stage, old]):
            alike = problem.request.cell_rule.alike
            changed = _moved(counts, (stage, old), (stage, new), layers=int(counts[stage, old]) if alike else 1)
            costs = problem.costs(changed)
            if _does_less(costs, before, stage) and problem.may_hold(changed[stage]) and _keeps(problem, costs, rank):
                yield problem.rank_peak(costs, rank)


def _does_less(costs: StageCosts, before: StageCosts, stage: int) -> bool:
    """Return whether a stage computes less again than before, or as much and moves less to the host."""
    if costs.offloaded_bytes is None or before.offloaded_bytes is None:
        return bool(costs.backward_ns[stage] < before.backward_ns[stage])
    less = costs.backward_ns[stage], costs.offloaded_bytes[stage]
    return bool(less < (before.backward_ns[stage], before.offloaded_bytes[stage]))


def _peaks_taking_layer(problem: Problem, counts: Integers, rank: int, step: "_Step") -> Iterator[int]:
    """Yield the peak of `rank`, above the limit, for each layer that it could take for a shorter step than `step`."""
    if problem.request.layers is not None:
        return
    ranks = problem.schedule.stage_ranks
    for stage in problem.schedule.stage_table[:, rank]:
        for giver in (stage - 1, stage + 1):
            if not 0 <= giver < problem.num_cells or ranks[giver] == rank:
                continue
            may_be_empty = problem.placement is None or not problem.placement.filled[giver]
            if counts[giver].sum() <= (problem.min_layers if may_be_empty else 1):
                continue
            for lost in np.flatnonzero(counts[giver]).tolist():
                for kind in reversed(range(len(problem.kinds))):
                    changed = _settled(problem, _moved(counts, (giver, lost), (stage, kind)), (giver, stage))
                    costs = problem.costs(changed)
                    peak = problem.rank_peak(costs, rank)
                    if peak <= problem.limit:
                        continue
                    if not step.is_longer_than_with(problem, costs):
                        if problem.kinds[kind] == NONE:
                            break  # other kinds take longer
                        continue
                    if (
                        problem.may_hold(changed[stage])
                        and problem.rank_peak(costs, ranks[giver]) <= problem.limit
                        and _keeps(problem, costs, rank)
                    ):
                        yield peak


def _keeps(problem: Problem, costs: StageCosts, rank: int) -> bool:
    """Return whether the rank that keeps what `rank` moves, if any does, has room for it."""
    return problem.keeper_peak(costs, rank) <= problem.limit


def _moved(counts: Integers, source: tuple[int, int], destination: tuple[int, int], *, layers: int = 1) -> Integers:
    """Return `counts` with layers moved from the stage and kind of `source` to those of `destination`."""
    changed = counts.copy()
    changed[source] -= layers
    changed[destination] += layers
    return changed


def _settled(problem: Problem, counts: Integers, stages: tuple[int, int]) -> Integers:
    """Return `counts`, with the layers under `full` of these stages as many as their layers allow or demand."""
    if problem.counts_full:
        full, none = problem.kinds.index(FULL), problem.kinds.index(NONE)
        for stage in stages:
            total = int(counts[stage].sum())
            least, most = problem.full_range(total)
            count = min(max(int(counts[stage, full]), least), most)
            counts[stage] = 0
            counts[stage, full], counts[stage, none] = count, total - count
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The step of the plan, with one of its longest paths."""

    makespan_ns: int
    durations: Integers
    path: Integers
    """Number of actions on the path by class of `Graph`, shaped like `durations`."""

    @classmethod
    def of(cls, problem: Problem, costs: StageCosts) -> "_Step":
        timeline = run(problem.graph, costs.durations, costs.messages(problem.request.communication))
        classes = problem.graph.classes_of(timeline.critical_path())
        path = np.bincount(classes, minlength=len(costs.durations))
        return cls(makespan_ns=timeline.makespan_ns, durations=costs.durations, path=path)

    def is_longer_than_with(self, problem: Problem, costs: StageCosts) -> bool:
        """Return whether the step is longer than with `costs`; it is not where its path is not."""
        if self.path @ (self.durations - costs.durations) <= 0:
            return False
        return problem.makespan_ns(costs) < self.makespan_ns
