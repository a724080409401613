"""Size and number of the microbatches of a step, chosen together: every divisor of the global batch that can win.

A step of N samples is N / m microbatches of m. Every size has stages and shardings of its own. The first size that is
searched is about one sample for each device of a node; then always the one nearest to the best so far, as steps fall
towards the best size and rise behind it. A size whose bound (`least_work`) is no less than the best step is dropped.
What there is no time for is told.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import SEQUENCES
from evenflow.tune.space import divisors
from evenflow_torch.auto.planner import AutoPlan, BatchOutcome, SearchedRow, TriedBatch, search_row
from evenflow_torch.auto.sharding.least_work import LeastWork, least_work
from evenflow_torch.auto.stages.request import TwoLevelRequest, silent
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.trace.captured_layers import capture_layers

_SEARCH_SHARE = 0.5
"""Share of the time left for the search of a size but the first; refinements have what remains."""

Rows = Callable[[int], ModelRow]
"""Makes the row of a model with microbatches of so many samples."""


def plan_batches(
    rows: Rows, request: TwoLevelRequest, *, global_batch: int, progress: Callable[[str], None] = silent
) -> AutoPlan:
    """Return the plan with the shortest step of `global_batch` samples, over all sizes of a microbatch.

    `AutoPlan.batches` has what came of every size. The number of microbatches of `request` does not count.

    Raises:
        InputError: a global batch out of range, a model that cannot be traced, no time for any plan.
    """
    SEQUENCES.check(global_batch, place="global_batch")
    return _BatchSearch(rows, request, global_batch, progress).run()


class _BatchSearch:
    """Searches the microbatch sizes into which one global batch can be cut."""

    def __init__(
        self, rows: Rows, request: TwoLevelRequest, global_batch: int, progress: Callable[[str], None]
    ) -> None:
        self.rows = rows
        self.request = request
        self.global_batch = global_batch
        self.progress = progress
        self.sizes = divisors(global_batch, most=global_batch)
        self.work = self._work()
        self.searched: dict[int, SearchedRow] = {}
        self.impossible: dict[int, InputError] = {}
        """Sizes for which not even a larger memory would do."""
        self.plans: dict[int, AutoPlan] = {}

    def run(self) -> AutoPlan:
        """Search microbatch sizes until none can win or time is up; then refine the plans that still can."""
        while (samples := self._next()) is not None:
            self._search(samples)
        if not self.searched:
            raise next(iter(self.impossible.values()), self.request.deadline.too_short())
        self._refine()
        best = min(self.plans, key=lambda samples: (self._step_ns(samples), samples), default=None)
        if best is None:
            best = min(self.searched, key=self._needed_bytes)
            self.plans[best] = self.searched[best].refined(self.request.deadline)
        return replace(self.plans[best], batches=tuple(self._tried(samples) for samples in self.sizes))

    def _work(self) -> LeastWork:
        """The least work of any microbatch size, traced with the largest one: the whole batch as one microbatch."""
        from evenflow_torch.models.equal_parts import kinds_of

        self.progress(_("tracing the whole batch"))
        kinds, order = kinds_of(self.rows(self.global_batch).parts)
        graphs = capture_layers(kinds, order).graphs
        return least_work(graphs, order, self.global_batch, self.request.accelerator)

    def _bound_ns(self, samples: int) -> int:
        return self.work.step_ns(
            samples,
            num_microbatches=self.global_batch // samples,
            num_devices=self.request.cluster.num_devices,
        )

    def _best_ns(self) -> float:
        """The shortest step so far."""
        return min((self._searched_ns(samples) for samples in self.searched), default=math.inf)

    def _searched_ns(self, samples: int) -> float:
        shortest = self.searched[samples].search.shortest
        return math.inf if shortest is None else shortest.timeline.makespan_ns

    def _next(self) -> int | None:
        """The microbatch size to search next; None if no other can win or the time is up."""
        if self.request.deadline.is_over and (self.searched or self.impossible):
            return None
        best_ns = self._best_ns()
        known = self.searched.keys() | self.impossible.keys()
        left = [size for size in self.sizes if size not in known and self._bound_ns(size) < best_ns]
        if math.isfinite(best_ns):
            centre = min(self.searched, key=self._searched_ns)
        else:  # where one does not fit, fewer samples need less memory
            centre = 1 if self.searched else self.request.cluster.devices_per_node
        return min(left, key=lambda size: (abs(math.log(size / centre)), size), default=None)

    def _search(self, samples: int) -> None:
        request = replace(
            self.request,
            num_microbatches=self.global_batch // samples,
            deadline=self.request.deadline.share(_SEARCH_SHARE) if self.searched else self.request.deadline,
        )
        self.progress(_("microbatches of {samples}", samples=samples))
        try:
            self.searched[samples] = search_row(self.rows(samples), request, progress=self.progress)
        except InputError as error:
            if request.deadline.is_over and self.searched:
                return
            if request.deadline.is_over:
                raise
            self.impossible[samples] = error

    def _refine(self) -> None:
        """Let the exact solver shorten plans, shortest step first, as long as one can still become the best."""
        waiting = sorted((size for size in self.searched if self._searched_ns(size) < math.inf), key=self._searched_ns)
        self.progress(_("refining the pipeline"))
        while waiting:
            size = waiting.pop(0)
            if not self.plans or self._bound_ns(size) < min(map(self._step_ns, self.plans)):
                self.plans[size] = self.searched[size].refined(self.request.deadline.share(1 / (len(waiting) + 1)))

    def _step_ns(self, samples: int) -> int:
        """Nanoseconds of the refined plan's step for this microbatch size."""
        return int(self.plans[samples].simulation.makespan_ns)

    def _needed_bytes(self, samples: int) -> int:
        shortage = self.searched[samples].search.shortage
        assert shortage is not None
        return shortage.memory_bytes

    def _tried(self, samples: int) -> TriedBatch:
        bound_ns = self._bound_ns(samples)
        tried = TriedBatch(
            microbatch=samples,
            num_microbatches=self.global_batch // samples,
            outcome=BatchOutcome.NO_TIME,
            lower_bound_ns=bound_ns,
        )
        if samples in self.plans and self.plans[samples].pipeline:
            return replace(tried, outcome=BatchOutcome.PLANNED, step_ns=self._step_ns(samples))
        if samples in self.searched and math.isfinite(self._searched_ns(samples)):
            return replace(tried, outcome=BatchOutcome.PLANNED, step_ns=int(self._searched_ns(samples)))
        if samples in self.searched and self.searched[samples].provider.left_out:
            return tried
        if samples in self.searched or samples in self.impossible:
            return replace(tried, outcome=BatchOutcome.DOES_NOT_FIT)
        is_beaten = any(bound_ns >= self._step_ns(planned) for planned in self.plans if self.plans[planned].pipeline)
        return replace(tried, outcome=BatchOutcome.BOUNDED) if is_beaten else tried
