"""Programs of which some costs run under others, such as exchanges under computation.

    step = whole - saved,    saved of a pass = min(hideable / slowed, compute)

The minimum is not linear, but for every weight w in [0, 1] it is at most ``w hideable / slowed + (1 - w) compute``.
So every weight gives a pairwise program whose least cost bounds the step from below, and whose choices are candidates:
with w = 1 exchanges are nearly free, with w = 0 computation is. Where everything is hidden under the choices of w = 1,
or nothing but exchanges shows under those of w = 0, they are the best of all; otherwise a weight between is tried too,
and the best choices are taken by the step itself.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.predict.pricing import without_ns
from evenflow.solve import Status
from evenflow_torch.auto.sharding.overlap import saved_ns
from evenflow_torch.auto.sharding.pairwise import Costs, Pairwise, PairwiseSolution, Solver, solve

_MOST_SOLVES = 8
NEAR = 1e-3
"""The share of a step that is not worth another program."""
_Edges = dict[tuple[int, int], Costs]


@dataclass(slots=True)
class Window:
    """What the forward or backward pass computes in all microbatches of a step, and what can run under it."""

    compute: dict[int, Costs] = field(default_factory=dict)
    """Costs of nodes."""
    recurring: _Edges = field(default_factory=dict)
    """Costs of edges that recur with every microbatch."""
    once: _Edges = field(default_factory=dict)
    """Costs of edges that come once a step."""

    def add(self, first: int, second: int, costs: Costs, *, once: bool) -> None:
        """Count ``costs[x_first, x_second]`` among what can run under the pass."""
        if first > second:
            first, second, costs = second, first, costs.T
        edges = self.once if once else self.recurring
        finite = np.where(np.isfinite(costs), costs, 0.0)
        edges[first, second] = edges[first, second] + finite if (first, second) in edges else finite


@dataclass(frozen=True, slots=True)
class _Totals:
    """What the choices made come to in a pass of one microbatch: its computation, and what can run under it."""

    compute: float
    recurring: float
    once: float


_Weights = tuple[float, float]
"""Weights of a pass: in all microbatches but one, and in the one that also hides what happens once a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlappedProgram:
    """A program with what runs under what, as plain numbers that can be handed to another process."""

    whole: Pairwise
    """Everything one after the other."""
    windows: tuple[Window, Window]
    """Forward and backward."""
    num_microbatches: int

    def with_costs(self, costs: Sequence[Costs]) -> "OverlappedProgram":
        """Return the program with other costs of its nodes; what can run under what stays the same."""
        return replace(self, whole=replace(self.whole, costs=list(costs)))

    def step_ns(self, choices: Sequence[int]) -> int:
        """Return the step's nanoseconds for these choices: all costs less what overlap saves."""
        saved = 0
        for totals in self.totals(choices):
            last = saved_ns(totals.recurring + totals.once, totals.compute)
            saved += (self.num_microbatches - 1) * saved_ns(totals.recurring, totals.compute) + last
        return round(self.whole.cost_of(choices)) - saved

    def totals(self, choices: Sequence[int]) -> list[_Totals]:
        """Return what forward and backward compute under these choices, and what can run under them."""
        return [
            _Totals(
                compute=sum(float(costs[choices[i]]) for i, costs in window.compute.items()) / self.num_microbatches,
                recurring=_sum(window.recurring, choices) / self.num_microbatches,
                once=_sum(window.once, choices),
            )
            for window in self.windows
        ]

    def weighted(self, weights: Sequence[_Weights], *, ns_per_byte: float = 0.0) -> Pairwise:
        """Return a plain program with these weights, whose cost is for no choices above that of the step."""
        costs = [own + ns_per_byte * memory for own, memory in zip(self.whole.costs, self.whole.memory, strict=True)]
        edges = dict(self.whole.edges)
        last = 1.0 / self.num_microbatches
        for window, (steady_weight, last_weight) in zip(self.windows, weights, strict=True):
            weight = (1.0 - last) * steady_weight + last * last_weight
            for i, computed in window.compute.items():
                finite = np.where(np.isfinite(computed), computed, 0.0)
                costs[i] = costs[i] - (1.0 - weight) * finite
            for hideable, share in ((window.recurring, weight), (window.once, last_weight)):
                for pair, own in hideable.items():
                    edges[pair] = edges[pair] - without_ns(share) * own
        return Pairwise(
            costs=[_rounded(table) for table in costs],
            memory=self.whole.memory,
            edges={pair: _rounded(table) for pair, table in edges.items()},
        )


class OverlapSolver:
    """Solves one program again and again with other costs of its nodes."""

    def __init__(self, program: OverlappedProgram, *, near: float = 0.0) -> None:
        """Take the program, and `near`, the share of the cost that is not worth a search."""
        self.program = program
        self.near = near
        self._solvers: dict[tuple[_Weights, ...], Solver] = {}

    def solve(
        self,
        costs: Sequence[Costs] | None = None,
        *,
        ns_per_byte: float = 0.0,
        start: tuple[int, ...] = (),
        memory_limit: int | None = None,
        time_limit_s: float = 60.0,
    ) -> PairwiseSolution:
        """Find choices with the shortest step, plus memory at its price, within the limit.

        `costs` are those of nodes, else the program's; `start` are known choices. Cost and bound include the price.
        """
        deadline = time.monotonic() + time_limit_s
        program = self.program if costs is None else self.program.with_costs(costs)
        weights = [_first_weights(window) for window in program.windows]
        best: PairwiseSolution | None = None
        for _ in range(_MOST_SOLVES):
            left_s = deadline - time.monotonic()
            if best is not None and left_s <= 0:
                break
            weighted = program.weighted(weights, ns_per_byte=ns_per_byte)
            if memory_limit is None:
                key = tuple(weights)
                solver = self._solvers.setdefault(key, Solver(weighted))
                solution = solver.solve(weighted.costs, start=start, near=self.near, time_limit_s=left_s)
            else:
                solution = solve(weighted, memory_limit=memory_limit, time_limit_s=left_s)
            if not solution.choices:
                return best or solution
            start = start and solution.choices
            cost = round(program.step_ns(solution.choices) + ns_per_byte * program.whole.memory_of(solution.choices))
            new = [_better(program, *pair) for pair in zip(program.totals(solution.choices), weights, strict=True)]
            is_best = new == weights and solution.status is Status.OPTIMAL
            bound = cost if is_best else min(cost, solution.lower_bound)
            solution = replace(
                solution, cost=cost, status=Status.OPTIMAL if is_best else Status.FEASIBLE, lower_bound=bound
            )
            best = solution if best is None else _joined(best, solution)
            if best.status is Status.OPTIMAL or best.cost - best.lower_bound <= NEAR * best.cost:
                break
            weights = new
        assert best is not None
        return best


def _first_weights(window: Window) -> _Weights:
    computes = any(costs[np.isfinite(costs)].any() for costs in window.compute.values())
    return (1.0, 1.0) if computes else (0.0, 0.0)


def _better(program: OverlappedProgram, totals: _Totals, weights: _Weights) -> _Weights:
    """Return weights that fit these totals better; unchanged weights mean that they are exact here."""
    hideable = totals.recurring, totals.recurring + totals.once
    steady, last = (
        _next(weight, without_ns(shared), totals.compute) for weight, shared in zip(weights, hideable, strict=True)
    )
    return (steady if program.num_microbatches > 1 else last), last


def _next(weight: float, saved_ns: float, compute_ns: float) -> float:
    """Return the next weight to try, one that raises the bound: halfway to 0 or 1, or 0 at once."""
    if weight == (1.0 if saved_ns <= compute_ns else 0.0) or saved_ns == compute_ns:
        return weight
    if weight == 1.0 and saved_ns > 2 * compute_ns:
        return 0.0
    return weight / 2 if saved_ns > compute_ns else (1.0 + weight) / 2


def _joined(best: PairwiseSolution, later: PairwiseSolution) -> PairwiseSolution:
    """Return the better of two solutions with the better of their lower bounds."""
    if later.status is Status.OPTIMAL:
        return later
    bound = max(best.lower_bound, later.lower_bound)
    better = later if later.cost < best.cost else best
    return replace(better, lower_bound=min(better.cost, bound))


def _sum(edges: Mapping[tuple[int, int], Costs], choices: Sequence[int]) -> float:
    return sum(float(costs[choices[i], choices[j]]) for (i, j), costs in edges.items())


def _rounded(costs: Costs) -> Costs:
    """Round costs down to whole numbers: their sums are exact, and a lower bound stays one."""
    return np.floor(costs)
