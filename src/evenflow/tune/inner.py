"""The inner problem of a configuration, solved in turns: its cut, its recomputation and its groups of microbatches."""

from dataclasses import replace

from evenflow.model import Plan
from evenflow.predict.training import Training
from evenflow.solve.contest.entry import Entry
from evenflow.solve.contest.turns import ContestInTurns
from evenflow.solve.for_target import entries_of_ways
from evenflow.solve.outcome import Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing
from evenflow.tune.variants import variants_of

_FIRST_SECONDS = 0.4
"""Seconds of a first turn; every further one takes twice as long as the one before."""


class InnerProblem:
    """One inner problem, with its plans and its bound so far: configurations whose pipelines are equal share it."""

    def __init__(self, pricing: Pricing, training: Training, *, start: Plan | None) -> None:
        """Prepare turns from the plan `start`, if one is known."""
        self._pricing, self._training = pricing, training
        self._request = pricing.request(training, transfer_ns=pricing.message_ns(training))
        self._problems: dict[int | None, Problem] = {}
        self._seconds = _FIRST_SECONDS
        variants = variants_of(pricing, training, self._request)
        self._entries = [
            entry
            for size in variants.group_sizes
            for entry in entries_of_ways(
                variants.ways,
                schedule=schedule_of(training),
                num_chunks=training.degrees.chunks,
                group_size=size,
                floor_ns=0,
            )
        ]
        self._contest = ContestInTurns(self._entries, self._problem_of)
        if start is not None:
            self._begin_from(start)

    @property
    def lower_bound_ns(self) -> float:
        """Lower bound on the pipeline of its plans in the group sizes that are tried; infinite where nothing fits."""
        return self._contest.lower_bound_ns if self._entries else float("inf")

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The best plan of every variant that has one."""
        outcomes = [entry.outcome for entry in self._entries if entry.bounds is None]
        return tuple(outcome.plan for outcome in outcomes if outcome is not None and outcome.plan is not None)

    @property
    def status(self) -> Status:
        """The status of the inner problem: what its plans and bounds prove."""
        bound, best = self.lower_bound_ns, min((entry.makespan_ns for entry in self._entries), default=float("inf"))
        if best < float("inf"):
            return Status.OPTIMAL if bound >= best * (1 - 2 * TOLERANCE) else Status.FEASIBLE
        return Status.INFEASIBLE if bound == float("inf") else Status.TIMEOUT

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be found or proven for the cutoff of the last turn."""
        return not self._entries or self._contest.is_over

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has come in a turn."""
        return self._contest.interrupted

    def advance(self, *, left_s: float, cutoff_ns: float) -> None:
        """Search on for one turn of at most `left_s`, for plans shorter than `cutoff_ns`."""
        if self._entries:
            self._contest.advance(seconds=min(self._seconds, left_s), cutoff_ns=cutoff_ns)
            self._seconds *= 2

    def _begin_from(self, start: Plan) -> None:
        for entry in self._entries:
            if entry.bounds is None and entry.group_size == start.group_size:
                problem = self._problem_of(entry)
                if all(problem.may_hold(content) for content in problem.counts(start)):
                    entry.known = (start,)
                    return

    def _problem_of(self, entry: Entry) -> Problem:
        """Return the problem of a variant; those of a group size share its order."""
        free = self._problems.get(entry.group_size)
        if free is None:
            request = replace(self._request, group_size=entry.group_size)
            free = self._problems[entry.group_size] = self._pricing.problem(request, self._training)
        return replace(free, request=replace(free.request, cell_rule=entry.rule or free.request.cell_rule))
