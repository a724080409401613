"""Partition, recomputation and order in alternation: each is improved while the others stay."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.model import Cells, Communication, Network, Plan
from evenflow.schedule import FAMILIES, Schedule, format_schedule, make_schedule
from evenflow.simulate import Simulation, build_graph, simulate
from evenflow.solve.order.plan_bounds import AnyPlan, any_order_lower_bound
from evenflow.solve.order.search import NAME, OrderOutcome, load_kernels, search_order
from evenflow.solve.outcome import Outcome, Progress, ProgressCallback, Status
from evenflow.solve.planner import plan_problem
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.proof import TOLERANCE
from evenflow.units import milliseconds

_NEVER_BEST = ("naive", "interleaved-remainder-last")
"""Families whose makespan another family of the same sizes never exceeds, or that are there for comparison."""
_FAMILY_SHARE = 0.4
"""Part of the time that goes to plans of families."""
_STARTS_SHARE = 0.3
"""Part of the time left then that goes to orders for the cells of all of them."""
_ORDER_SHARE, _CELLS_SHARE = 0.4, 0.25
"""Parts of the time left that go to an order, and then to the cells under it."""
_LEAST_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class OrderedOutcome(Outcome):
    """The result of `plan_any_order`; `lower_bound_ns` holds for any cells and any order of these sizes."""

    family: Outcome | None = None
    """The best plan of a family that was found on the way, with the bound for that family."""
    order_lower_bound_ns: int | None = None
    """No order of this plan's cells on their ranks within the limit is shorter."""

    def certificate(self) -> str:
        """What was gained, and how good the plan is proven to be."""
        if self.makespan_ns is None or self.family is None or self.family.plan is None:
            return super(OrderedOutcome, self).certificate()  # noqa: UP008 - slots make super() another class
        family_ns = self.family.makespan_ns or self.makespan_ns
        gain = 100 * (1 - self.makespan_ns / family_ns)
        lines = [
            f"{milliseconds(self.makespan_ns):,.3f} ms, {gain:.2f} % less than the best plan of a family found "
            f"({self.family.plan.schedule}, {milliseconds(family_ns):,.3f} ms)"
        ]
        if self.order_lower_bound_ns is not None:
            lines.append(
                f"any order of these cells: not below {milliseconds(self.order_lower_bound_ns):,.3f} ms "
                f"({100 * (1 - self.order_lower_bound_ns / self.makespan_ns):.2f} %)"
            )
        lines.append(
            f"any cells and any order: not below {milliseconds(self.lower_bound_ns):,.3f} ms "
            f"({100 * (1 - self.lower_bound_ns / self.makespan_ns):.2f} %)"
        )
        return "\n".join(lines)


def plan_any_order(
    network: Network,
    *,
    num_ranks: int,
    num_microbatches: int,
    num_chunks: int = 1,
    memory_limit_bytes: int | None = None,
    split_backward: bool = False,
    sequence_splits: int = 1,
    mix_any: bool = False,
    allow_empty: bool = False,
    communication: Communication | None = None,
    layers: Cells | None = None,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> Outcome:
    """The shortest step found over cells, recomputation and the order of work.

    Plans the families that these sizes have (with split backwards only if `split_backward`), then searches the order
    for their cells and plans the best one's cells again under the new order, while that helps. Never longer than the
    best family's plan. Arguments as of `evenflow.plan`; the answer is an `OrderedOutcome` unless no family has a plan.

    Raises InputError and Interrupted as `evenflow.plan` does.
    """
    load_kernels()
    began = time.monotonic()
    problems = list(
        _families(
            network,
            sizes={
                "num_ranks": num_ranks,
                "num_chunks": num_chunks,
                "num_microbatches": num_microbatches,
                "sequence_splits": sequence_splits,
            },
            split_backward=split_backward,
            memory_limit_bytes=memory_limit_bytes,
            mix_any=mix_any,
            allow_empty=allow_empty,
            communication=communication,
            layers=layers,
        )
    )
    families = [
        plan_problem(problem, time_limit_s=_FAMILY_SHARE * time_limit_s / len(problems), progress=progress)
        for problem in problems
    ]
    family = min(families, key=_rank)
    if family.simulation is None:
        return family
    rounds = _Alternation(
        best=family.simulation,
        starts=[outcome.simulation for outcome in families if outcome.simulation is not None],
        memory_limit_bytes=family.memory_limit_bytes,
        split_backward=split_backward,
        problem=problems[0],
        # What compiling took in a first run is not taken from the search.
        end=max(began + time_limit_s, time.monotonic() + (1 - _FAMILY_SHARE) * time_limit_s),
        progress=progress,
    )
    order = rounds.run()
    problem = problems[0]
    bound = any_order_lower_bound(
        AnyPlan(
            network=problem.network,
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_units=problem.schedule.num_units,
            min_layers=problem.min_layers,
            memory_limit_bytes=problem.memory_limit_bytes,
            message_ns=problem.message_ns,
            may_split=split_backward,
        )
    )
    best = rounds.best
    return OrderedOutcome(
        status=Status.OPTIMAL if bound >= best.makespan_ns * (1 - 2 * TOLERANCE) else Status.FEASIBLE,
        simulation=best,
        lower_bound_ns=min(bound, best.makespan_ns),
        memory_limit_bytes=family.memory_limit_bytes,
        solve_seconds=time.monotonic() - began,
        first_plan_seconds=family.first_plan_seconds,
        fixed_layers=layers is not None,
        family=family,
        order_lower_bound_ns=None if order is None else order.lower_bound_ns,
    )


def _families(
    network: Network, *, sizes: dict[str, int], split_backward: bool, **arguments: object
) -> Iterator[Problem]:
    """The problems of all families that have these sizes; raises the last refusal where none has."""
    refused: InputError | None = None
    found = False
    for name in FAMILIES:
        if name in _NEVER_BEST:
            continue
        try:
            order = make_schedule(name, **sizes)
            build_graph(order)
            if order.splits_backward and not split_backward:
                continue
            problem = problem_of_order(network, order=order, **arguments)  # type: ignore[arg-type]
        except InputError as error:
            refused = error
            continue
        found = True
        yield problem
    if not found and refused is not None:
        raise refused


def _rank(outcome: Outcome) -> tuple[int, int]:
    """Plans by makespan, then what needs the smallest limit."""
    if outcome.makespan_ns is not None:
        return (0, outcome.makespan_ns)
    if outcome.infeasibility is None:
        return (1, 0)
    return (2, outcome.infeasibility.smallest_limit_bytes)


@dataclass(kw_only=True)
class _Alternation:
    """The best plan so far, and what it may not break."""

    best: Simulation
    starts: list[Simulation]
    """Plans of families; a shorter one need not be the better start."""
    memory_limit_bytes: int | None
    split_backward: bool
    problem: Problem
    """Of any family: the input that stays."""
    end: float
    progress: ProgressCallback | None

    def run(self) -> OrderOutcome | None:
        """Improve order and cells in turn until neither helps or the time is up; the outcome of the last order."""
        order: OrderOutcome | None = None
        seconds = _STARTS_SHARE * self._left_s / len(self.starts)
        for start in self.starts:
            self._search_order(start.plan, time_limit_s=seconds)
        while order is None or self._left_s > _LEAST_SECONDS:
            before = self.best.makespan_ns
            order = self._search_order(self.best.plan, time_limit_s=_ORDER_SHARE * self._left_s)
            cells_ns = self.best.makespan_ns
            if self._left_s > _LEAST_SECONDS:
                self._plan_cells(order.schedule)
            if self.best.makespan_ns == before:
                break
            if self.best.makespan_ns < cells_ns:
                order = None  # its bound spoke of other cells
        return order or self._search_order(self.best.plan, time_limit_s=0.0)

    @property
    def _left_s(self) -> float:
        return self.end - time.monotonic()

    def _search_order(self, plan: Plan, *, time_limit_s: float) -> OrderOutcome:
        outcome = search_order(
            plan,
            self.problem.original,
            memory_limit_bytes=self.memory_limit_bytes,
            communication=self.problem.communication,
            split_backward=self.split_backward,
            time_limit_s=max(_LEAST_SECONDS, time_limit_s),
            progress=self._watched(),
        )
        if outcome.makespan_ns < self.best.makespan_ns:
            self._take(with_order(plan, outcome.schedule))
        return outcome

    def _plan_cells(self, order: Schedule) -> None:
        problem = self.problem
        again = problem_of_order(
            problem.original,
            order=replace(order, name=NAME),
            memory_limit_bytes=problem.memory_limit_bytes,
            mix_any=problem.mix_any,
            allow_empty=problem.min_layers == 0,
            communication=problem.communication,
            layers=problem.fixed_layers,
        )
        outcome = plan_problem(
            again,
            time_limit_s=max(_LEAST_SECONDS, _CELLS_SHARE * self._left_s),
            start=self.best.plan,
            progress=self._watched(),
        )
        if outcome.plan is not None:
            self._take(outcome.plan)

    def _take(self, plan: Plan) -> None:
        simulation = simulate(self.problem.original, plan, communication=self.problem.communication)
        if not simulation.fits(self.memory_limit_bytes):
            raise AssertionError("search and simulator disagree on memory: this is a fault in evenflow")
        if simulation.makespan_ns < self.best.makespan_ns:
            self.best = simulation

    def _watched(self) -> ProgressCallback | None:
        """The caller's progress with the best plan so far; bounds of a given order or of given cells are left out."""
        if self.progress is None:
            return None
        report, best_ns = self.progress, self.best.makespan_ns

        def watch(inner: Progress) -> None:
            makespan = best_ns if inner.makespan_ns is None else min(best_ns, inner.makespan_ns)
            report(replace(inner, makespan_ns=makespan, lower_bound_ns=0))

        return watch


def with_order(plan: Plan, schedule: Schedule) -> Plan:
    """`plan` with an order of its own; a family's name stays, and needs no order."""
    if schedule.name in FAMILIES:
        return replace(plan, schedule=schedule.name, order=())
    return replace(plan, schedule=schedule.name, order=tuple(format_schedule(schedule).splitlines()))
