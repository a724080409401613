"""Solves the programs of all kinds of layers on one mesh under plain plans: with fewer choices at each node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.language import _
from evenflow.solve import Status
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.memory_levels import LevelsProblem, suiting
from evenflow_torch.auto.sharding.overlapped import OverlappedProgram, OverlapSolver, Window
from evenflow_torch.auto.sharding.pairwise import Costs, Pairwise, PairwiseSolution
from evenflow_torch.auto.sharding.plain.restrictions import Kept, Restriction
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay, Way

_Solutions = list[PairwiseSolution]
"""A solution for each kind of layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSolutions:
    """The plain plans that were solved, and why each of the others does not exist."""

    solved: Mapping[Way, _Solutions]
    missing: Mapping[PlainWay, str]
    """For each plan that does not exist, the reason: what does not divide, or that the time was over."""


def solve_plain(problem: LevelsProblem, restrictions: Iterable[Restriction], deadline: Deadline) -> PlainSolutions:
    """Return the fastest sharding of all kinds under each plain plan that exists and that time allows.

    Stages of ZeRO differ in what they share out only: whatever has the same choices as under an earlier stage keeps
    what was chosen there.
    """
    solved: dict[Way, _Solutions] = {}
    missing: dict[PlainWay, str] = {}
    first: dict[tuple[AxisRole, ...], tuple[Restriction, _Solutions]] = {}
    for restriction in restrictions:
        if restriction.reason:
            missing[restriction.way] = restriction.reason
            continue
        outcome: _Solutions | Status = Status.TIMEOUT
        if not deadline.is_over:
            if restriction.way.roles in first:
                outcome = _solved(problem, _as_before(restriction, *first[restriction.way.roles]), deadline)
            if isinstance(outcome, Status):
                outcome = _solved(problem, restriction.kept, deadline)
        if not isinstance(outcome, Status):
            solved[restriction.way] = outcome
            first.setdefault(restriction.way.roles, (restriction, outcome))
        elif outcome is Status.TIMEOUT:
            missing[restriction.way] = no_time()
        else:
            missing[restriction.way] = _("its operators cannot be split like this")
    return PlainSolutions(solved=solved, missing=missing)


def no_time() -> str:
    """Return the reason of `PlainSolutions.missing` that says nothing about the plan itself."""
    return _("no time was left to shard its operators")


def _as_before(now: Restriction, before: Restriction, solutions: _Solutions) -> tuple[Kept, ...]:
    """Return the choices of a plan, fixed to an earlier plan's solution wherever both have the same choices."""
    return tuple(
        tuple(
            np.array([choice]) if np.array_equal(left, earlier) else left
            for left, earlier, choice in zip(kept, kept_before, solution.choices, strict=True)
        )
        for kept, kept_before, solution in zip(now.kept, before.kept, solutions, strict=True)
    )


def _solved(problem: LevelsProblem, kept: Sequence[Kept], deadline: Deadline) -> _Solutions | Status:
    """Return the fastest sharding of each kind with only these choices of its nodes, or why there is none."""
    links = tuple(
        replace(link, costs=link.costs[np.ix_(kept[link.kinds[0]][link.nodes[0]], kept[link.kinds[1]][link.nodes[1]])])
        for link in problem.links
    )
    programs = tuple(_with_choices(program, left) for program, left in zip(problem.programs, kept, strict=True))
    few = replace(problem, programs=programs, links=links)
    levels: dict[int, list[PairwiseSolution]] = {}
    for kind in problem.order:
        costs = suiting(few, kind, levels, 0)
        levels[kind] = [OverlapSolver(programs[kind]).solve(costs, time_limit_s=deadline.left_s)]
        if not levels[kind][0].choices:
            return levels[kind][0].status
    return [_of_all(levels[kind][0], kept[kind]) for kind in range(len(programs))]


def _of_all(solution: PairwiseSolution, kept: Kept) -> PairwiseSolution:
    """Return a restricted program's solution as choices of the whole program."""
    return replace(
        solution, choices=tuple(int(left[choice]) for left, choice in zip(kept, solution.choices, strict=True))
    )


def _with_choices(program: OverlappedProgram, kept: Kept) -> OverlappedProgram:
    def of(edges: Mapping[tuple[int, int], Costs]) -> dict[tuple[int, int], Costs]:
        return {(i, j): costs[np.ix_(kept[i], kept[j])] for (i, j), costs in edges.items()}

    forward, backward = (
        Window(
            compute={i: costs[kept[i]] for i, costs in window.compute.items()},
            recurring=of(window.recurring),
            once=of(window.once),
        )
        for window in program.windows
    )
    whole = Pairwise(
        costs=[costs[left] for costs, left in zip(program.whole.costs, kept, strict=True)],
        memory=[memory[left] for memory, left in zip(program.whole.memory, kept, strict=True)],
        edges=of(program.whole.edges),
    )
    return replace(program, whole=whole, windows=(forward, backward))
