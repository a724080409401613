"""The shardings of all kinds of layers on one mesh, at several prices of memory, each kind suiting its neighbours.

+-> input -> layer -> result --+      a kind that follows itself: what goes out of a layer comes into the next one
+------------ hop -------------+
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from evenflow.cluster import WholeTensor
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.overlapped import NEAR, OverlappedProgram, OverlapSolver
from evenflow_torch.auto.sharding.pairwise import Costs, PairwiseSolution
from evenflow_torch.auto.sharding.program import NodeKind, ShardingProgram
from evenflow_torch.auto.sharding.ways import Level
from evenflow_torch.models.trace.operator_graph import Role

_SHARE = 0.1
"""Share of the time left that one program may take, so that a stubborn one does not cost all others theirs."""
_PRICES = {Level.FAST: 1e-3, Level.BALANCED: 0.2, Level.SMALL: 1.0, Level.SMALLEST: 100.0}
"""Prices of memory: what all memory of the fastest sharding costs, in steps of it.

The last makes memory nearly all that counts. Every kind of layer is solved at the same price of a byte, as the best
sharding of the whole stage under a memory limit would be. Without a row for the limit the program reduces well.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """The cost of bringing a tensor from a node of one kind's program to a node of another's."""

    kinds: tuple[int, int]
    nodes: tuple[int, int]
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsProblem:
    """The sharding programs of all kinds of layers on one mesh, as plain numbers."""

    programs: tuple[OverlappedProgram, ...]
    links: tuple[_Link, ...]
    order: tuple[int, ...]
    """The order in which kinds are solved: those with the most layers first, then the ends that have to suit them."""


def levels_problem(
    programs: Sequence[ShardingProgram],
    *,
    order: Sequence[int],
    longest: Sequence[int],
    handed_over: Sequence[WholeTensor],
) -> LevelsProblem:
    """Return the sharding problem of layers that follow one another in this order of kinds.

    `longest` and `handed_over` hold, for each kind, the length of its longest run and the tensor that comes in. A kind
    that follows itself takes what it gives: its program has that hop too, or inputs would come for nothing. Between two
    kinds, the one that is solved later pays for the hop, and so is chosen to suit the earlier one.
    """
    ends = [ends_of(program) for program in programs]
    links = []
    closed = [replace(program.pairwise, edges=dict(program.pairwise.edges)) for program in programs]
    for before, after in dict.fromkeys(pairwise(order)):
        for kinds, nodes in (
            ((before, after), (ends[before].exit, ends[after].entry)),
            ((after, before), (ends[after].gradient_exit, ends[before].gradient_entry)),
        ):
            if nodes[0] is None or nodes[1] is None:
                continue
            costs = _hop(programs[kinds[0]], nodes[0], programs[kinds[1]], nodes[1], handed_over[after])
            if before == after:
                closed[before].edge(nodes[0], nodes[1], costs)
            else:
                links.append(_Link(kinds=kinds, nodes=(nodes[0], nodes[1]), costs=costs))
    first = sorted(range(len(programs)), key=lambda kind: -longest[kind])
    return LevelsProblem(
        programs=tuple(
            replace(program.overlapped, whole=whole) for program, whole in zip(programs, closed, strict=True)
        ),
        links=tuple(links),
        order=tuple(first),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnds:
    """The nodes of a program where tensors enter and leave the layer; see `LayerCost`."""

    entry: int
    exit: int
    gradient_entry: int | None
    gradient_exit: int | None


def ends_of(program: ShardingProgram) -> ProgramEnds:
    """Return the nodes where tensors enter and leave the layers of a program."""

    def first(role: Role) -> int | None:
        nodes = (program.node_of[i] for i, operator in enumerate(program.graph.operators) if operator.role is role)
        return next(nodes, None)

    def result(*, backward: bool) -> int | None:
        nodes = enumerate(program.nodes)
        return next((i for i, node in nodes if node.kind is NodeKind.RESULT and node.backward == backward), None)

    entry, leaving = first(Role.INPUT), result(backward=False)
    assert entry is not None
    assert leaving is not None
    return ProgramEnds(
        entry=entry, exit=leaving, gradient_entry=first(Role.TANGENT), gradient_exit=result(backward=True)
    )


def _hop(before: ShardingProgram, giver: int, after: ShardingProgram, taker: int, tensor: WholeTensor) -> Costs:
    """Return what moving a tensor from one program to another costs in a step, for each pair of choices."""
    moves = before.redistributions.of(tensor)
    rows = [moves.index[strategy.outputs[0]] for strategy in before.nodes[giver].strategies]
    columns = [moves.index[strategy.outputs[0]] for strategy in after.nodes[taker].strategies]
    return moves.costs[np.ix_(rows, columns)] * before.training.num_microbatches


def solve_levels(problem: LevelsProblem, deadline: Deadline) -> list[list[PairwiseSolution]] | None:
    """Return the shardings of each kind's program from the fastest to the smallest; None where time is too short.

    Prices for which there is no time left have the shardings of the price before.
    """
    solvers = [OverlapSolver(program, near=NEAR) for program in problem.programs]
    levels: dict[int, list[PairwiseSolution]] = {}
    for kind in problem.order:
        limit_s = _SHARE * deadline.left_s
        levels[kind] = [solvers[kind].solve(suiting(problem, kind, levels, 0), time_limit_s=limit_s)]
        if not levels[kind][0].choices:
            return None
    time_ns = sum(solutions[0].cost for solutions in levels.values())
    size = sum(problem.programs[kind].whole.memory_of(solutions[0].choices) for kind, solutions in levels.items())
    prices = {Level.FASTEST: 0.0, **{level: price * max(1, time_ns) / max(1, size) for level, price in _PRICES.items()}}
    for level in _PRICES:
        for kind in problem.order:
            costs = suiting(problem, kind, levels, level)
            solution = None
            if not deadline.is_over:
                solution = _priced(solvers[kind], costs, prices[level], levels[kind], _SHARE * deadline.left_s)
            levels[kind].append(solution or levels[kind][-1])
    return [_best_at(problem, kind, levels, prices) for kind in range(len(problem.programs))]


def _best_at(
    problem: LevelsProblem,
    kind: int,
    levels: Mapping[int, list[PairwiseSolution]],
    prices: Mapping[Level, float],
) -> list[PairwiseSolution]:
    """Return the best solution of a kind at every price; one found at another price may turn out better."""
    best = []
    for level, price in prices.items():
        program = problem.programs[kind].with_costs(suiting(problem, kind, levels, level))

        def cost(solution: PairwiseSolution, program: OverlappedProgram = program, price: float = price) -> float:
            return program.step_ns(solution.choices) + price * program.whole.memory_of(solution.choices)

        own = levels[kind][level]
        chosen = min([own, *levels[kind]], key=cost)  # of equals its own
        best.append(own if chosen is own else replace(chosen, cost=program.step_ns(chosen.choices)))
    return best


def suiting(problem: LevelsProblem, kind: int, levels: Mapping[int, list[PairwiseSolution]], level: int) -> list[Costs]:
    """Return a kind's node costs plus the moves to and from the kinds already solved at this level."""
    costs = list(problem.programs[kind].whole.costs)
    for link in problem.links:
        giver, taker = link.kinds
        if kind == taker and len(levels.get(giver, ())) > level:
            costs[link.nodes[1]] = costs[link.nodes[1]] + link.costs[levels[giver][level].choices[link.nodes[0]]]
        if kind == giver and len(levels.get(taker, ())) > level:
            costs[link.nodes[0]] = costs[link.nodes[0]] + link.costs[:, levels[taker][level].choices[link.nodes[1]]]
    return costs


def _priced(
    solver: OverlapSolver,
    costs: list[Costs],
    ns_per_byte: float,
    cheaper: Sequence[PairwiseSolution],
    time_limit_s: float,
) -> PairwiseSolution | None:
    """Return the cheapest sharding at a price of memory, given those at lower prices; None if time is too short."""
    solution = solver.solve(costs, ns_per_byte=ns_per_byte, start=cheaper[-1].choices, time_limit_s=time_limit_s)
    if not solution.choices:
        return None
    step_ns = solver.program.with_costs(costs).step_ns(solution.choices)
    return replace(solution, cost=step_ns, lower_bound=cheaper[0].lower_bound)
