"""Finds the best threshold for the dynamic program over stages by branch and bound over intervals.

The least sum under a threshold falls as the threshold grows. Alpa tries thresholds one after the other, except for
those that differ little. Here intervals of thresholds are bounded instead: no plan whose largest cost is in [x, y]
takes less than ``(least sum under y) + (B - 1) x``. Intervals whose bound reaches the best plan are dropped, others
halved. Nothing is rounded, so the result is the optimum, after some dozens of dynamic programs, not one per threshold.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.stages.dynamic_program import CandidateCosts, StagePlan, StagePlans, StageProgram

NEAR_PERCENT = 110
"""Alternatives that take at most so many percent of the best plan are proven too."""


def best_stages(
    costs: CandidateCosts,
    *,
    num_devices: int,
    num_microbatches: int,
    in_flight: Sequence[int],
    memory_limit_bytes: int,
    num_stages: int | None = None,
    deadline: Deadline | None = None,
) -> StagePlans:
    """The stages and submeshes that use all devices and minimise the time of a step.

    With `num_stages` there are so many, otherwise any number. From `deadline` on the best that was met is the answer,
    once there is one; its bound says how far it may be off.

    ``in_flight[s]`` is how many activations the s-th stage from the end holds, for s from 1 to the smaller of layers
    and devices, and does not fall (see `in_flight_microbatches`). Without a deadline the result depends on the input
    alone; of equally good plans the one that is met first stays.

    Raises InputError for sizes beyond what can be computed exactly.
    """
    program = StageProgram(costs, num_devices, in_flight, memory_limit_bytes, num_stages)
    values = [int(value) for value in np.unique(costs.cost_ns[costs.cost_ns >= 0])]
    search = _ThresholdSearch(program=program, values=values, others=num_microbatches - 1)
    search.run(deadline or Deadline.after(math.inf))
    return search.answer()


class _ThresholdSearch:
    """A best-first search of the thresholds that bisects intervals of them."""

    def __init__(self, *, program: StageProgram, values: list[int], others: int) -> None:
        self.program = program
        self.values = values
        """The costs of candidate stages, ascending: the thresholds that can matter."""
        self.others = others
        """Number of microbatches beside the first, each of which adds the largest cost to a step."""
        self.solved: dict[int, dict[int, int]] = {}
        """Least sums by number of stages, by index of the threshold."""
        self.most_stages: dict[int, int] = {}
        """The number of stages up to which a threshold was solved, by index of the threshold."""
        self.best: dict[int, tuple[int, StagePlan]] = {}
        """Best step by number of stages."""
        self.is_complete = True
        """Whether the best of all is proven."""

    @property
    def incumbent_ns(self) -> int:
        """The step of the best plan."""
        return min(step for step, _ in self.best.values())

    def run(self, deadline: Deadline) -> None:
        """Bound, drop and halve intervals [low, high] of thresholds until nothing can be better."""
        last = len(self.values) - 1
        if last < 0:
            return
        # The thresholds of an interval have no smaller sums than the solved one above it, the last of an entry.
        intervals = [(0, 0, self._solve(last, 0, self.program.most_stages) - 1, last)]
        while intervals:
            if deadline.is_over:
                self.is_complete = False
                return
            _, low, high, above = heapq.heappop(intervals)
            high = self._last_alive(low, high, above)
            if high < low:
                continue
            middle = self._middle(low, high)
            most_stages = max(self._improving(low, above))
            for part in ((low, self._solve(middle, low, most_stages) - 1, middle), (middle + 1, high, above)):
                if part[0] <= part[1]:
                    bound = min(self.solved[part[2]].values()) + self.others * self.values[part[0]]
                    heapq.heappush(intervals, (bound, *part))

    def _solve(self, index: int, low: int, most_stages: int) -> int:
        """Solve under one threshold; return the index from which on thresholds up to it need no more work.

        Of the thresholds from `low` on, every plan that could improve there is already the one found.
        """
        plans = self.program.solve(self.values[index], most_stages)
        self.most_stages[index] = most_stages
        self.solved[index] = {len(plan.stages): plan.step_ns for plan in plans}
        for plan in plans:
            count, step = len(plan.stages), plan.step_ns + self.others * plan.slowest_ns
            if count not in self.best or step < self.best[count][0]:
                self.best[count] = (step, plan)
        improving = self._improving(low, index)
        largest = max((plan.slowest_ns for plan in plans if len(plan.stages) in improving), default=-1)
        return int(np.searchsorted(self.values, largest)) if largest >= 0 else 0

    def _improving(self, low: int, above: int) -> set[int]:
        """Return the numbers of stages that a threshold from `low` on may improve, by the solved threshold above."""
        if not self.solved[above]:
            return set()
        near = self.incumbent_ns * NEAR_PERCENT // 100
        most = self.others * self.values[low]
        return {count for count, least in self.solved[above].items() if least + most < min(self.best[count][0], near)}

    def _last_alive(self, low: int, high: int, above: int) -> int:
        """Return the index of the last threshold of an interval that can still improve a plan."""
        while low <= high:
            middle = (low + high) // 2
            if self._improving(middle, above):
                low = middle + 1
            else:
                high = middle - 1
        return high

    def _middle(self, low: int, high: int) -> int:
        """Return the index of the threshold nearest the middle by value, since bounds add up values."""
        wanted = (self.values[low] + self.values[high]) / 2
        return min(high, max(low, int(np.searchsorted(self.values, wanted))))

    def answer(self) -> StagePlans:
        """Return the best plan met for every number of stages, each with its bound."""
        alternatives = tuple(
            replace(plan, step_ns=step, lower_bound_ns=min(step, self._bound(count)))
            for count, (step, plan) in sorted(self.best.items())
        )
        best = min(alternatives, key=lambda plan: plan.step_ns, default=None)
        return StagePlans(
            best=best,
            alternatives=alternatives,
            simulated_bound_ns=self._simulated_bound() if best and self.is_complete else None,
            num_programs=len(self.solved),
        )

    def _simulated_bound(self) -> int:
        bound = self.program.simulated_bound_ns(self.others + 1, self.incumbent_ns)
        complete = self.program.costs.complete_below_ns
        return bound if complete is None else min(bound, complete)

    def _bound(self, num_stages: int) -> int:
        """Return a time that no plan of `num_stages` undercuts; a complete search proves the best of all."""
        searched = sorted(index for index, most_stages in self.most_stages.items() if num_stages <= most_stages)
        bound = min(
            self.solved[index][num_stages] + self.others * self.values[before + 1]
            for before, index in pairwise([-1, *searched])
            if num_stages in self.solved[index]
        )
        complete = self.program.costs.complete_below_ns
        bound = bound if complete is None else min(bound, complete)
        return max(int(self.incumbent_ns), bound) if self.is_complete else bound
