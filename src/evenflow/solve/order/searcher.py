"""A running search for orders: list scheduling with many keys, then local moves, in turn."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.schedule import Op, Schedule
from evenflow.simulate import Integers, build_graph, peak_bytes, run
from evenflow.solve.order.keys import Keys, disturbed_keys, template_keys
from evenflow.solve.order.work import Work, splits_of
from evenflow.solve.outcome import Progress, ProgressCallback

SEARCHED = "search"
"""The schedule name of orders that were searched for."""
_TEMPERATURES = (0.002, 0.0005, 0.006)
"""Starting temperatures of the rounds of local moves in turn, as fractions of the makespan."""
_REPORT_SECONDS = 0.25
_PATIENCE = (0.0, 0.5, 1.0)
"""Values of the patience that list scheduling draws from (see `list_schedule`)."""
_FIRST_STEPS, _LEAST_STEPS = 500, 100
"""Moves of the first round of local moves, and the fewest of any."""
_COOLING = 100
"""Starting temperature over the last one of a round."""
_FIRST_SECONDS, _LEAST_SECONDS, _SHARE = 0.5, 0.2, 0.05
"""Seconds of the first construction and refinement, the fewest of later ones, and their share of the time left."""
_MOVES_SECONDS, _LEAST_MOVES_SECONDS = 1.0, 0.02
"""Most and fewest seconds that a round of local moves should take."""
_KEEP_SPLITS = 0.8
"""Probability with which disturbed keys keep the stages that split their backwards."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """An order found by the search, with its makespan."""

    schedule: Schedule
    makespan_ns: int


@dataclass(kw_only=True)
class OrderSearch:
    """A running search for orders of some work, with the best one so far."""

    work: Work
    bound_ns: int
    best: Found | None = None
    seed: int = 0
    _random: np.random.Generator = field(init=False)
    _patterns: list[NDArray[np.bool_]] = field(init=False)
    """Sets of stages whose backwards may be split together."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        work = self.work
        none = np.zeros(work.num_stages, dtype=bool)
        patterns = [none]
        if work.may_split:
            # A stage that recomputes, split, holds more while it waits for its weight gradient.
            patterns += [work.costs.recompute_ns == 0, ~none]
        self._patterns = [
            pattern
            for index, pattern in enumerate(patterns)
            if self._is_possible(pattern) and not any((pattern == other).all() for other in patterns[:index])
        ]

    def start_from(self, schedule: Schedule) -> None:
        """Take an order from outside if it is allowed, fits and is the best."""
        if schedule.splits_backward and not self.work.may_split:
            return
        if self._fits(schedule):
            self._take(schedule)

    def split_best(self) -> None:
        """Try the best order with its backwards split in place.

        Local moves then find better places for the weight gradients.
        """
        for pattern in self._patterns:
            if self.best is not None and pattern.any():
                split = _split(self.best.schedule, pattern)
                if self._fits(split):
                    self._take(split)

    def _fits(self, schedule: Schedule) -> bool:
        costs = self.work.costs
        live = peak_bytes(schedule, costs) - costs.static_bytes - costs.working_bytes
        return bool((live <= self.work.room_bytes).all())

    def improve(self, *, began: float, time_limit_s: float, progress: ProgressCallback | None) -> None:
        """Construct, refine and anneal orders in turn until the time is up or the bound is met."""
        end, steps, reported = began + time_limit_s, _FIRST_STEPS, began
        first = True
        while first or (time.monotonic() < end and not self._is_over):
            if progress and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                progress(self._progress(began))
            now = time.monotonic()
            share = _FIRST_SECONDS if first else max(_LEAST_SECONDS, _SHARE * (end - now))
            self._construct(until=min(end, now + share), at_least_one=self.best is None)
            self._refine(until=min(end, time.monotonic() + share))
            steps = self.anneal(steps=steps, end=end)
            first = False
        if progress:
            progress(self._progress(began))

    @property
    def _is_over(self) -> bool:
        """Whether the best order is proven to be the shortest, or the command that searches was told to end."""
        return self.best is not None and (self.best.makespan_ns <= self.bound_ns or was_interrupted())

    def _progress(self, began: float) -> Progress:
        return Progress(
            seconds=time.monotonic() - began,
            phase=_("searching orders"),
            makespan_ns=self.best.makespan_ns if self.best else None,
            lower_bound_ns=self.bound_ns,
        )

    def _take(self, schedule: Schedule) -> None:
        """Remember an order if it is the best; its makespan is the simulator's."""
        timeline = run(build_graph(schedule), self.work.costs.durations, self.work.communication)
        if self.best is None or timeline.makespan_ns < self.best.makespan_ns:
            self.best = Found(schedule=schedule, makespan_ns=timeline.makespan_ns)

    # -- list scheduling -------------------------------------------------------------------------------------------

    def _construct(self, *, until: float, at_least_one: bool) -> None:
        """Construct orders by list scheduling with keys drawn at random."""
        while at_least_one or (time.monotonic() < until and not self._is_over):
            for pattern in [*self._patterns, *self._mixed_pattern()]:
                self._list(
                    pattern, template_keys(self.work, self._random), patience=float(self._random.choice(_PATIENCE))
                )
            at_least_one = False

    def _mixed_pattern(self) -> Iterator[NDArray[np.bool_]]:
        """Yield a random choice of stages that split their backwards, if that is allowed and fits."""
        if self.work.may_split:
            pattern = self._random.random(self.work.num_stages) < self._random.random()
            if self._is_possible(pattern):
                yield pattern

    def _is_possible(self, pattern: NDArray[np.bool_]) -> bool:
        return bool((self.work.alone_bytes(pattern) <= self.work.room_bytes).all())

    def _refine(self, *, until: float) -> None:
        """Construct orders from the best one, by disturbing the earliest and latest starts of its actions."""
        while self.best is not None and time.monotonic() < until and not self._is_over:
            schedule, draw = self.best.schedule, self._random
            splits = splits_of(schedule)
            if splits is None:
                return
            keys = disturbed_keys(self.work, schedule, draw)
            pattern = splits if draw.uniform() < _KEEP_SPLITS else self._patterns[draw.integers(len(self._patterns))]
            keys[2, pattern & ~splits] = keys[1, pattern & ~splits]
            self._list(pattern, keys, patience=float(draw.choice(_PATIENCE)))

    def _list(self, splits: NDArray[np.bool_], keys: Keys, *, patience: float) -> None:
        from evenflow.solve.order.list_kernel import list_schedule

        work = self.work
        of_rank = (2 + splits)[work.stage_table].sum(axis=0) * work.num_units
        starts = np.concatenate(([0], np.cumsum(of_rank)))
        ops, stages, units = (np.empty(starts[-1], dtype=np.int32) for _ in range(3))
        makespan = list_schedule(keys, patience, self._stages(splits), starts, ops, stages, units)
        if self.best is None or makespan < self.best.makespan_ns:
            self._take(self._schedule(np.stack((ops, stages, units)), starts))

    # -- local moves -----------------------------------------------------------------------------------------------

    def anneal(self, *, steps: int, end: float) -> int:
        """Run a round of local moves from the best order; returns the number of moves for the next round."""
        from evenflow.solve.order.move_kernel import Order, Room, anneal

        if self.best is None or self._is_over:
            return steps
        schedule = self.best.schedule
        splits = np.zeros(self.work.num_stages, dtype=bool)  # read only by list scheduling
        starts = np.array(schedule.rank_starts, dtype=np.int64)
        count = schedule.num_actions
        current, best = (
            Order(
                schedule.ops.copy(),
                schedule.stages.copy(),
                schedule.units.astype(np.int32),
                np.zeros(count, dtype=np.int64),
            )
            for _ in range(2)
        )
        room = Room(
            np.zeros((2, schedule.num_stages, schedule.num_units), dtype=np.uint32),
            *(np.zeros(count, dtype=np.uint32) for _ in range(4)),  # type: ignore[call-arg]
            np.zeros(count, dtype=np.bool_),
            np.zeros(schedule.num_ranks, dtype=np.uint32),
            np.zeros(count + 1, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
        )
        for temperature in _TEMPERATURES:
            began = time.monotonic()
            if began >= end or self._is_over:
                break
            round_seed = int(self._random.integers(2**31))
            hot = max(1.0, self.best.makespan_ns * temperature)
            makespan = anneal(
                round_seed, steps, hot, max(1.0, hot / _COOLING), current, best, self.best.makespan_ns,
                self._stages(splits), starts, room,
            )  # fmt: skip
            if makespan < self.best.makespan_ns:
                self._take(self._schedule(np.stack((best.ops, best.stages, best.units)), starts))
            for target, source in zip(current[:3], best[:3], strict=True):
                target[:] = source
            seconds = time.monotonic() - began
            steps = _next_steps(steps, seconds, left_s=end - time.monotonic())
        return steps

    def _stages(self, splits: NDArray[np.bool_]) -> object:
        from evenflow.solve.order.list_kernel import Stages

        work, costs = self.work, self.work.costs
        return Stages(
            work.stage_table,
            np.array(work.stage_ranks, dtype=np.int32),
            costs.durations,
            costs.activation_bytes,
            costs.until_weight_bytes,
            splits,
            work.room_bytes,
            work.alone_bytes(splits),
            work.gradient_units,
            work.num_units,
            work.sequence_splits,
            work.message_ns,
        )

    def _schedule(self, codes: NDArray[np.int32], starts: Integers) -> Schedule:
        return Schedule.from_orders(
            name=SEARCHED,
            num_stages=self.work.num_stages,
            num_microbatches=self.work.num_microbatches,
            sequence_splits=self.work.sequence_splits,
            stage_ranks=self.work.stage_ranks,
            orders=np.split(codes, starts[1:-1], axis=1),
        )


def _split(schedule: Schedule, pattern: NDArray[np.bool_]) -> Schedule:
    """Return the order with each whole backward of the stages in `pattern` split in place into its two gradients."""
    orders = []
    for rank in range(schedule.num_ranks):
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        codes = np.stack((schedule.ops[span], schedule.stages[span], schedule.units[span]))
        divided = (codes[0] == Op.B) & pattern[codes[1]]
        codes = np.repeat(codes, 1 + divided, axis=1)
        gradients = np.flatnonzero(divided) + np.arange(divided.sum())
        codes[0, gradients], codes[0, gradients + 1] = Op.I, Op.W
        orders.append(codes)
    return Schedule.from_orders(
        name=SEARCHED,
        num_stages=schedule.num_stages,
        num_microbatches=schedule.num_microbatches,
        sequence_splits=schedule.sequence_splits,
        stage_ranks=schedule.stage_ranks,
        orders=orders,
    )


def _next_steps(steps: int, seconds: float, *, left_s: float) -> int:
    """Return the number of moves with which a round takes a second, or less if little time is left."""
    wanted = min(_MOVES_SECONDS, max(_LEAST_MOVES_SECONDS, left_s / 4))
    return max(_LEAST_STEPS, min(2 * steps, int(steps * wanted / max(seconds, 1e-6))))
