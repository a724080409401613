"""Solves the programs of all kinds of layers on one mesh under plain plans: with fewer choices at each node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.auto.deadline import Deadline
from evenflow.auto.sharding.memory_levels import LevelsProblem, suiting
from evenflow.auto.sharding.overlapped import OverlappedProgram, OverlapSolver, Window
from evenflow.auto.sharding.pairwise import Costs, Pairwise, PairwiseSolution
from evenflow.auto.sharding.plain.restrictions import Kept, Restriction
from evenflow.auto.sharding.ways import AxisRole, PlainWay, Way
from evenflow.language import _
from evenflow.solve import Status

_Solutions = list[PairwiseSolution]
"""One for each kind of layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSolutions:
    """The plain plans that there are, and why the others are not there."""

    solved: Mapping[Way, _Solutions]
    missing: Mapping[PlainWay, str]
    """What does not divide, or that the time was over."""


def solve_plain(problem: LevelsProblem, restrictions: Iterable[Restriction], deadline: Deadline) -> PlainSolutions:
    """Return the fastest sharding of all kinds under each plain plan that there is, and time for.

    Stages of ZeRO differ in what they share out only: whatever has the same choices as under an earlier stage keeps
    what was chosen there.
    """
    solved: dict[Way, _Solutions] = {}
    missing: dict[PlainWay, str] = {}
    first: dict[tuple[AxisRole, ...], tuple[Restriction, _Solutions]] = {}
    for one in restrictions:
        if one.reason:
            missing[one.way] = one.reason
            continue
        found: _Solutions | Status = Status.TIMEOUT
        if not deadline.is_over:
            if one.way.roles in first:
                found = _solved(problem, _as_before(one, *first[one.way.roles]), deadline)
            if isinstance(found, Status):
                found = _solved(problem, one.kept, deadline)
        if not isinstance(found, Status):
            solved[one.way] = found
            first.setdefault(one.way.roles, (one, found))
        elif found is Status.TIMEOUT:
            missing[one.way] = _("no time was left to shard its operators")
        else:
            missing[one.way] = _("its operators cannot be split like this")
    return PlainSolutions(solved=solved, missing=missing)


def _as_before(now: Restriction, before: Restriction, found: _Solutions) -> tuple[Kept, ...]:
    """The choices of a plan, but those of an earlier one where both have the same."""
    return tuple(
        tuple(
            np.array([choice]) if np.array_equal(left, earlier) else left
            for left, earlier, choice in zip(kept, kept_before, solution.choices, strict=True)
        )
        for kept, kept_before, solution in zip(now.kept, before.kept, found, strict=True)
    )


def _solved(problem: LevelsProblem, kept: Sequence[Kept], deadline: Deadline) -> _Solutions | Status:
    """Return the fastest sharding of each kind with these choices of its nodes only; without one, how that ended."""
    links = tuple(
        replace(link, costs=link.costs[np.ix_(kept[link.kinds[0]][link.nodes[0]], kept[link.kinds[1]][link.nodes[1]])])
        for link in problem.links
    )
    programs = tuple(_with_choices(program, left) for program, left in zip(problem.programs, kept, strict=True))
    few = replace(problem, programs=programs, links=links)
    found: dict[int, list[PairwiseSolution]] = {}
    for kind in problem.order:
        costs = suiting(few, kind, found, 0)
        found[kind] = [OverlapSolver(programs[kind]).solve(costs, time_limit_s=deadline.left_s)]
        if not found[kind][0].choices:
            return found[kind][0].status
    return [_of_all(found[kind][0], kept[kind]) for kind in range(len(programs))]


def _of_all(solution: PairwiseSolution, kept: Kept) -> PairwiseSolution:
    """Return a solution in the numbers of all choices."""
    return replace(solution, choices=tuple(int(left[one]) for left, one in zip(kept, solution.choices, strict=True)))


def _with_choices(program: OverlappedProgram, kept: Kept) -> OverlappedProgram:
    def of(edges: Mapping[tuple[int, int], Costs]) -> dict[tuple[int, int], Costs]:
        return {(i, j): costs[np.ix_(kept[i], kept[j])] for (i, j), costs in edges.items()}

    forward, backward = (
        Window(
            compute={i: costs[kept[i]] for i, costs in window.compute.items()},
            each=of(window.each),
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
