"""The alternation of partition, recomputation and order: each is improved while the others stay."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from evenflow.asking import takes
from evenflow.errors import InputError, Interrupted
from evenflow.interruption import abandonable, was_interrupted
from evenflow.language import _
from evenflow.model import HostLink, Plan, Request
from evenflow.schedule import FAMILIES, Schedule, make_schedule
from evenflow.simulate import Simulation, pairs_save, simulate
from evenflow.solve.bounds import AnyPlan, every_cut_bound_ns, load_cut_search
from evenflow.solve.clock import Clock, now_s
from evenflow.solve.group_choice import tried_group_sizes
from evenflow.solve.known_plans import in_own_order
from evenflow.solve.machine_code import MachineCode
from evenflow.solve.order.order_search import SEARCHER, load_kernels, search_order
from evenflow.solve.order.ordered_outcome import ordered_outcome, with_order, without_bounds
from evenflow.solve.order.searcher import split_in_place
from evenflow.solve.outcome import Outcome, ProgressCallback, Status
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.requests import AnyOrderRequest

CUT_SEARCH = MachineCode()
"""What `load_cut_search` makes."""
_FAMILY_SHARE = 0.4
"""Share of the time for the plans of families."""
_STARTS_SHARE = 0.3
"""Share of the time left then for the first orders for the cells of all these plans."""
_CELLS_SHARE, _ORDER_SHARE = 0.15, 0.25
"""Shares of the time left for the cells under an order, and then for an order for them."""
_PATIENCE = 3
"""Number of visits that did not help after which a start is given up."""
_LEAST_SECONDS = 0.2
"""Least time of a visit: a shorter one does not pay for its start."""


@takes(AnyOrderRequest)
def plan_any_order(request: AnyOrderRequest) -> Outcome:
    """Return the shortest step found over cells, recomputation and the order of work.

    Plans the families that these sizes have (with split backwards only if `split_backward`), then searches the order
    for their cells and plans the best one's cells again under the new order, while that helps. Never longer than the
    best family's plan, nor than a `known` one that the answer could be. Arguments as of `evenflow.plan`; the answer is
    an `OrderedOutcome` unless no family has a plan.

    Raises InputError and Interrupted as `evenflow.plan` does.
    """
    return solve_any_order(
        request.problem(num_chunks=request.num_chunks, mix_any=request.mix_any, layers=request.layers),
        split_backward=request.split_backward,
        time_limit_s=request.time_limit_s,
        progress=request.progress,
        known=request.known,
    )


def solve_any_order(
    request: Request,
    *,
    split_backward: bool = False,
    in_pairs: bool = True,
    host_links: Sequence[HostLink] = (),
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Outcome:
    """Return the shortest step of `request` found over any order; `plan_any_order` says the rest.

    Without `in_pairs` no forward runs beside a backward. The `host_links`, if there are any, share the time; they
    differ in when they fetch, and the answer is the shortest over one of them.
    """
    requests = [replace(request, network=replace(request.network, host_link=link)) for link in host_links] or [request]
    if any(own.network.keeps_for_others for own in requests):
        raise InputError(
            rule=_(
                "must not keep anything for others: a search for the order of work does not know what they set aside"
            ),
            place=_("ranks of {name}", name=request.network.name),
            remedy=_("try all schedules with --schedule best"),
        )
    in_pairs = in_pairs and pairs_save(request.network, request.communication)
    began = now_s()
    outcomes: list[Outcome] = []
    for number, own in enumerate(requests):
        if outcomes and was_interrupted():
            break
        spent_s = now_s() - began
        best = min(outcomes, key=preference).simulation if outcomes else None
        try:
            outcomes.append(
                _solve(
                    own,
                    split_backward=split_backward,
                    in_pairs=in_pairs,
                    time_limit_s=(time_limit_s - spent_s) / (len(requests) - number),
                    progress=without_bounds(progress, best, after_s=spent_s) if outcomes else progress,
                    known=known,
                )
            )
        except Interrupted:
            if not outcomes:
                raise
            outcomes[-1] = replace(outcomes[-1], interrupted=True)
            break
    return _shortest_of(outcomes, solve_seconds=now_s() - began)


def _shortest_of(outcomes: Sequence[Outcome], *, solve_seconds: float) -> Outcome:
    """Return the shortest of some outcomes, with a bound that holds for all of them."""
    best, *others = sorted(outcomes, key=preference)
    if not others:
        return best
    lowest_ns = min(outcome.lower_bound_ns for outcome in outcomes)
    is_less_sure = best.status is Status.OPTIMAL and lowest_ns < best.lower_bound_ns
    return replace(
        best,
        status=Status.FEASIBLE if is_less_sure else best.status,
        lower_bound_ns=lowest_ns,
        interrupted=any(outcome.interrupted for outcome in outcomes),
        solve_seconds=solve_seconds,
    )


def _solve(
    request: Request,
    *,
    split_backward: bool,
    in_pairs: bool,
    time_limit_s: float,
    progress: ProgressCallback | None,
    known: Sequence[Plan],
) -> Outcome:
    """Return the shortest step found over any order with one link to the host."""
    problems = _problems(request, split_backward=split_backward, in_pairs=in_pairs)
    began = now_s()
    compared = [problem for problem in problems if not FAMILIES[problem.schedule.name].comparison_only]
    rounds = _Rounds(
        problems=compared,
        split_orders=_split_in_place(compared) if split_backward and request.network.offloads else [],
        last_resort=next((problem for problem in problems if problem.schedule.name == "naive"), None),
        split_backward=split_backward,
        in_pairs=in_pairs,
        time_limit_s=time_limit_s,
        progress=progress,
        known=known,
    )
    rounds.run()
    family, best = min(rounds.families, key=preference), rounds.best
    if best is None:
        return family
    return ordered_outcome(
        best,
        compared[0],
        family,
        split_backward=split_backward,
        in_pairs=in_pairs,
        solve_seconds=now_s() - began,
        interrupted=rounds.interrupted,
        known_bound_ns=rounds.bound_ns,
    )


def _problems(request: Request, *, split_backward: bool, in_pairs: bool) -> list[Problem]:
    """Return the problems of all families that have these sizes; raises the last refusal where none has.

    Interleaved ones come in the usual groups first, and then in those that `tried_group_sizes` finds promising.
    """
    problems: list[Problem] = []
    refused: InputError | None = None
    for name, family in FAMILIES.items():
        if family.has_pairs and not in_pairs:
            continue
        try:
            for group_size in tried_group_sizes(request, name, which="promising"):
                order = make_schedule(name, **asdict(request.sizes), group_size=group_size)
                if split_backward or not order.splits_backward:
                    problems.append(problem_of_order(request, order))
        except InputError as error:  # sizes that the family does not have, or no plan has
            refused = error
    if not problems and refused is not None:
        raise refused
    return problems


def _split_in_place(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems under interleaved orders whose backwards are split: input and weight gradient in turn."""
    interleaved = [
        problem
        for problem in problems
        for family in (FAMILIES[problem.schedule.name],)
        if family.has_groups and not family.has_pairs
    ]
    return [
        problem_of_order(problem.request, split_in_place(order, np.ones(order.num_stages, dtype=np.bool_)))
        for problem in interleaved
        for order in (problem.schedule,)
    ]


def preference(outcome: Outcome) -> tuple[int, int]:
    """Return the sort key of an outcome: plans by makespan, then those without by the smallest limit that would do."""
    if outcome.makespan_ns is not None:
        return (0, outcome.makespan_ns)
    if outcome.infeasibility is None:
        return (1, 0)
    return (2, outcome.infeasibility.smallest_limit_bytes)


@dataclass(kw_only=True)
class _Rounds:
    """A running alternation with its best plan so far."""

    problems: list[Problem]
    """Problems of all families and groups, which differ only in the order."""
    split_orders: list[Problem]
    """Problems under orders of families with split backwards, where anything is copied to the host."""
    last_resort: Problem | None
    """The problem under the order that needs the least memory."""
    split_backward: bool
    in_pairs: bool
    time_limit_s: float
    progress: ProgressCallback | None
    known: Sequence[Plan] = ()
    given: list[Simulation] = field(default_factory=list)
    """The known plans in their own orders, where they may be."""
    families: list[Outcome] = field(default_factory=list)
    best: Simulation | None = None
    bound_ns: int = 0
    """A bound on all these plans, as soon as it is known; 0 before."""
    end: float = 0.0
    interrupted: bool = False

    def run(self) -> None:
        """Plan the families, then improve order and cells in turn until neither helps or the time is up.

        Ctrl-C ends it with the best plan so far; raises Interrupted when there is none.
        """
        began = now_s()
        self._take_known()
        for problem in self.problems:
            self._plan_family(problem)
            if self._is_interrupted:
                return
        self._plan_split_orders()
        if self.best is None and self.last_resort is not None:
            self._plan_family(self.last_resort)
        self.end = began + self.time_limit_s
        with suppress(KeyboardInterrupt, Interrupted):
            self._improve()

    @property
    def _has_no_family(self) -> bool:
        return all(outcome.simulation is None for outcome in self.families)

    def _take_known(self) -> None:
        request = self.problems[0].request
        for plan in self.known:
            simulation = in_own_order(request, plan)
            if simulation and self._allows(simulation.timeline.schedule):
                self.given.append(simulation)
                self._offer(simulation)

    def _allows(self, order: Schedule) -> bool:
        return (self.split_backward or not order.splits_backward) and (self.in_pairs or not order.has_pairs)

    def _plan_family(self, problem: Problem) -> None:
        found = [outcome.plan for outcome in self.families if outcome.plan is not None]
        try:
            outcome = self._race(problem, seconds=self._family_seconds, known=(*self.known, *found))
        except Interrupted:
            if not self.families:
                raise
            self.interrupted = True
            return
        self.families.append(outcome)
        self._offer(outcome.simulation)

    @property
    def _family_seconds(self) -> float:
        return _FAMILY_SHARE * self.time_limit_s / (len(self.problems) + len(self.split_orders))

    def _plan_split_orders(self) -> None:
        """Plan what begins with backwards that are split: these may free what they hold in time for copies to leave."""
        for problem in self.split_orders:
            with suppress(Interrupted):
                outcome = self._race(problem, seconds=self._family_seconds)
                if outcome.simulation is not None:
                    self.given.append(outcome.simulation)
                    self._offer(outcome.simulation)
            if self._is_interrupted:
                return

    def _improve(self) -> None:
        """Alternate on the plan of each family and those known: the shortest of them need not be the best start."""
        if self._left_s <= 0:
            return
        SEARCHER.begin(load_kernels)
        if not SEARCHER.wait(is_over=lambda: self._left_s <= 0 or self._is_interrupted):
            return
        if self.problems[0].request.sizes.num_chunks > 1:
            CUT_SEARCH.begin(load_cut_search)
        tracks = self._shortest_of_each() + [given for given in self.given if given.plan.order]
        seconds = _STARTS_SHARE * self._left_s / max(1, len(tracks))
        tracks = [self._with_best_order(track, seconds=seconds, seed=0) for track in tracks]
        visits = [0] * len(tracks)
        while tracks and self._left_s > _LEAST_SECONDS and not self._is_interrupted:
            self._bound()
            index = min(
                range(len(tracks)), key=lambda track_index: (visits[track_index], tracks[track_index].makespan_ns)
            )
            visit, before = visits[index], tracks[index]
            cells = self._with_best_cells(before, seconds=_CELLS_SHARE * self._left_s)
            tracks[index] = self._with_best_order(cells, seconds=_ORDER_SHARE * self._left_s, seed=visit + 1)
            if tracks[index].makespan_ns == before.makespan_ns:
                visits[index] += 1
                if visits[index] == _PATIENCE:
                    del tracks[index], visits[index]
        self._bound()

    def _bound(self) -> None:
        """Bound all these plans, once, when the machine code for it is there and nobody waits for an answer."""
        if self.bound_ns or self.best is None or not CUT_SEARCH.is_made or self._is_interrupted:
            return
        request = self.problems[0].request
        plans = AnyPlan.of(request, may_split=self.split_backward, in_pairs=self.in_pairs)
        with abandonable():
            self.bound_ns = every_cut_bound_ns(plans, up_to_ns=self.best.makespan_ns)

    def _shortest_of_each(self) -> list[Simulation]:
        """Return the shortest plan of each family, whatever its groups."""
        shortest: dict[str, Simulation] = {}
        for outcome in sorted(self.families, key=preference):
            if outcome.simulation is not None:
                shortest.setdefault(outcome.simulation.plan.schedule, outcome.simulation)
        return list(shortest.values())

    @property
    def _is_interrupted(self) -> bool:
        return self.interrupted or was_interrupted()

    @property
    def _left_s(self) -> float:
        return self.end - now_s()

    def _with_best_order(self, track: Simulation, *, seconds: float, seed: int) -> Simulation:
        """Return the same cells in the shortest order found."""
        if self._is_interrupted:
            return track
        request, plan = self.problems[0].request, track.plan
        outcome = search_order(
            plan,
            request.network,
            memory_limit_bytes=request.memory_limit_bytes,
            communication=request.communication,
            split_backward=self.split_backward,
            in_pairs=self.in_pairs,
            time_limit_s=max(_LEAST_SECONDS, seconds),
            seed=seed,
            progress=without_bounds(self.progress, self.best),
        )
        if outcome.makespan_ns >= track.makespan_ns:
            return track
        simulation = simulate(request.network, with_order(plan, outcome.schedule), communication=request.communication)
        self._offer(simulation)
        return simulation

    def _with_best_cells(self, track: Simulation, *, seconds: float) -> Simulation:
        """Return the same order with the best cells found."""
        again = problem_of_order(self.problems[0].request, track.timeline.schedule)
        simulation = self._race(again, seconds=max(_LEAST_SECONDS, seconds), known=(track.plan,)).simulation
        self._offer(simulation)
        return simulation or track

    def _race(self, problem: Problem, *, seconds: float, known: Sequence[Plan] = ()) -> Outcome:
        race = Race(problem, RaceSettings(known=known))
        outcome = race.run(Clock(limit_s=seconds), progress=without_bounds(self.progress, self.best))
        self.interrupted = race.interrupted.is_set()
        return outcome

    def _offer(self, simulation: Simulation | None) -> None:
        if simulation is None or (self.best is not None and simulation.makespan_ns >= self.best.makespan_ns):
            return
        if not simulation.fits(self.problems[0].memory_limit_bytes):
            raise AssertionError("search and simulator disagree on memory: this is a fault in evenflow")
        self.best = simulation
