"""Solves programs: once, within a limit on memory, or again and again with other costs."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.solve import Status
from evenflow_torch.auto.sharding.pairwise.cheapest import cheapest
from evenflow_torch.auto.sharding.pairwise.messages import Messages
from evenflow_torch.auto.sharding.pairwise.program import Cheapest, Choices, Costs, Pairwise, PairwiseSolution
from evenflow_torch.auto.sharding.pairwise.within import cheapest_within, memory_alone


def solve(program: Pairwise, *, memory_limit: int | None = None, time_limit_s: float = 60.0) -> PairwiseSolution:
    """Find the cheapest choices whose memory is within the limit."""
    deadline = time.monotonic() + time_limit_s
    free = Solver(program).solve(time_limit_s=time_limit_s)
    if memory_limit is None or free.status is Status.INFEASIBLE:
        return free
    if not free.choices or program.memory_of(free.choices) <= memory_limit:
        return free
    return _solution(program, cheapest_within(program, memory_limit, free.choices, deadline))


def least_memory(program: Pairwise, *, time_limit_s: float = 60.0) -> int | None:
    """Return a lower bound, exact if time suffices, on the memory of allowed choices; None if none is allowed."""
    solution = Solver(memory_alone(program)).solve(time_limit_s=time_limit_s)
    return None if solution.status is Status.INFEASIBLE else solution.lower_bound


class Solver:
    """Solves one program again and again with other costs of its nodes, and reuses the messages."""

    def __init__(self, program: Pairwise) -> None:
        self.program = program
        self._messages: Messages | None = None

    def solve(
        self,
        costs: Sequence[Costs] | None = None,
        *,
        start: Choices = (),
        near: float = 0.0,
        time_limit_s: float = 60.0,
    ) -> PairwiseSolution:
        """Find the cheapest choices, by default with the program's own node costs; `start` are known choices.

        Choices are enough of which messages alone prove that others save no more than the share `near` of their cost.
        """
        deadline = time.monotonic() + time_limit_s
        program = self.program if costs is None else replace(self.program, costs=list(costs))
        if not program.has_choices:
            return PairwiseSolution(status=Status.INFEASIBLE)
        messages = self._messages
        if messages is None or not messages.is_exact or not messages.change_costs(program.costs):
            messages = self._messages = Messages(program)
        best = messages.among_allowed(start) if start else None
        result = cheapest(program, messages, best, deadline, near=near)
        return _solution(
            program, result if result.choices is None else replace(result, choices=messages.settled(result.choices))
        )


def _solution(program: Pairwise, result: Cheapest) -> PairwiseSolution:
    if result.lower_bound == np.inf:
        return PairwiseSolution(status=Status.INFEASIBLE)
    lower = max(0, int(np.ceil(result.lower_bound - 0.5))) if np.isfinite(result.lower_bound) else 0
    if result.choices is None:
        return PairwiseSolution(status=Status.TIMEOUT, lower_bound=lower)
    cost = int(program.cost_of(result.choices))
    status = Status.OPTIMAL if lower >= cost else Status.FEASIBLE
    return PairwiseSolution(status=status, choices=result.choices, cost=cost, lower_bound=min(lower, cost))
