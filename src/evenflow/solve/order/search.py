"""The search for a better order of given work."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.model import Communication, Network, Plan
from evenflow.schedule import FAMILIES, Schedule, check_complete, make_schedule, one_f_one_b, schedule_of
from evenflow.schedule.of_plan import check_sizes_of
from evenflow.simulate import build_graph, peak_bytes, run, stage_costs
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.solve.order.bounds import OrderBound, order_lower_bound
from evenflow.solve.order.work import Work, make_work, splits_of
from evenflow.solve.outcome import Progress, ProgressCallback

NAME = "search"
"""The schedule name of orders that were searched for."""
_TEMPERATURES = (0.002, 0.0005, 0.006)
"""Starting temperatures of the rounds of local moves in turn, as fractions of the makespan."""
_REPORT_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class OrderOutcome:
    """The best order found for some work."""

    schedule: Schedule
    makespan_ns: int
    bound: OrderBound
    start_ns: int | None
    """Makespan of the best order that the search started from; None when none of them fits in memory."""
    start_name: str | None
    """The name of that order."""
    solve_seconds: float

    @property
    def lower_bound_ns(self) -> int:
        """No order of these stages on these ranks within the limit is shorter."""
        return min(self.bound.lower_bound_ns, self.makespan_ns)

    @property
    def gap(self) -> float:
        """At most this fraction of the makespan could be saved by another order."""
        return 1 - self.lower_bound_ns / self.makespan_ns


def search_order(
    plan: Plan,
    network: Network,
    *,
    memory_limit_bytes: int | None,
    communication: Communication | None = None,
    split_backward: bool = False,
    start: Sequence[Schedule] = (),
    time_limit_s: float,
    progress: ProgressCallback | None = None,
) -> OrderOutcome:
    """The shortest order found for the cells of `plan`, on the placement of its schedule, within the memory limit.

    Starts from all families of these sizes and placement and from `start`, and is never longer than any of them that
    fits. With `split_backward` stages may split their backwards; otherwise none does. Ends early when the order is
    proven optimal. Runs in the caller's thread; Ctrl-C raises KeyboardInterrupt.

    Raises InputError when not even one microbatch at a time fits, and for steps without backward.
    """
    load_kernels()
    began = time.monotonic()
    schedule = schedule_of(plan)
    costs = stage_costs(network, plan, schedule)
    limit = memory_limit_bytes if network.has_memory else None
    work = make_work(
        costs, schedule, memory_limit_bytes=limit, communication=communication, split_backward=split_backward
    )
    for given in start:
        check_sizes_of(plan, given)
        check_complete(given)
        if given.stage_ranks != schedule.stage_ranks:
            raise InputError(
                value=given.name, rule="an order to start from has the placement of the plan", place="start"
            )
    starts = [*start, schedule, *_families(schedule)]
    bound = order_lower_bound(work)
    search = _Search(work=work, communication=communication, bound_ns=bound.lower_bound_ns)
    for candidate in starts:
        search.start_from(candidate)
    started = search.best
    search.improve(began=began, time_limit_s=time_limit_s, progress=progress)
    best = search.best
    if best is None:
        raise AssertionError("one microbatch at a time fits, so there is an order: this is a fault in evenflow")
    return OrderOutcome(
        schedule=best.schedule,
        makespan_ns=best.makespan_ns,
        bound=bound,
        start_ns=started.makespan_ns if started else None,
        start_name=started.schedule.name if started else None,
        solve_seconds=time.monotonic() - began,
    )


def load_kernels() -> None:
    """Compile what the search needs, or read it from the cache, by searching something tiny."""
    tiny = one_f_one_b(num_ranks=2, num_microbatches=2)
    ones, zeros = np.ones(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    costs = StageCosts(
        num_ranks=2,
        forward_ns=ones,
        backward_ns=2 * ones,
        weight_ns=ones,
        recompute_ns=zeros,
        activation_bytes=ones,
        weight_bytes=ones,
        static_bytes=zeros,
    )
    work = make_work(costs, tiny, memory_limit_bytes=None, communication=None, split_backward=False)
    search = _Search(work=work, communication=None, bound_ns=0)
    search.start_from(tiny)
    search.improve(began=time.monotonic(), time_limit_s=0.01, progress=None)
    search.anneal(steps=1, end=np.inf)


def _families(schedule: Schedule) -> Iterator[Schedule]:
    """The orders of all families with the sizes and placement of `schedule`."""
    for name in FAMILIES:
        try:
            order = make_schedule(
                name,
                num_ranks=schedule.num_ranks,
                num_chunks=schedule.num_chunks,
                num_microbatches=schedule.num_microbatches,
                sequence_splits=schedule.sequence_splits,
            )
            build_graph(order)
        except InputError:  # a family that does not have these sizes
            continue
        if order.stage_ranks == schedule.stage_ranks:
            yield order


@dataclass(frozen=True, kw_only=True)
class _Found:
    """An order with its makespan."""

    schedule: Schedule
    makespan_ns: int


@dataclass(kw_only=True)
class _Search:
    """A running search."""

    work: Work
    communication: Communication | None
    bound_ns: int
    best: _Found | None = None
    seed: int = 0
    _random: np.random.Generator = field(init=False)
    _patterns: list[NDArray[np.bool_]] = field(init=False)
    """Which stages may split their backwards together."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(0)
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
        """Take an order of someone else if it is allowed, fits and is the best."""
        if schedule.splits_backward and not self.work.may_split:
            return
        if (peak_bytes(schedule, self.work.costs) - self.work.costs.static_bytes <= self.work.room_bytes).all():
            self._take(schedule)

    def improve(self, *, began: float, time_limit_s: float, progress: ProgressCallback | None) -> None:
        """Construct, refine and anneal in turn until the time is up or the bound is met."""
        end, steps, reported = began + time_limit_s, 500, began
        first = True
        while first or (time.monotonic() < end and not self._proven):
            if progress and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                progress(self._progress(began))
            now = time.monotonic()
            share = 0.5 if first else max(0.2, 0.05 * (end - now))
            self._construct(until=min(end, now + share), at_least_one=first)
            self._refine(until=min(end, time.monotonic() + share))
            steps = self.anneal(steps=steps, end=end)
            first = False
        if progress:
            progress(self._progress(began))

    @property
    def _proven(self) -> bool:
        return self.best is not None and self.best.makespan_ns <= self.bound_ns

    def _progress(self, began: float) -> Progress:
        return Progress(
            seconds=time.monotonic() - began,
            phase="searching orders",
            makespan_ns=self.best.makespan_ns if self.best else None,
            lower_bound_ns=self.bound_ns,
        )

    def _take(self, schedule: Schedule) -> None:
        """Remember an order if it is the best; its makespan is the simulator's."""
        timeline = run(build_graph(schedule), self.work.costs.durations, self.communication)
        if self.best is None or timeline.makespan_ns < self.best.makespan_ns:
            self.best = _Found(schedule=schedule, makespan_ns=timeline.makespan_ns)

    # -- list scheduling -------------------------------------------------------------------------------------------

    def _construct(self, *, until: float, at_least_one: bool) -> None:
        """Orders from priorities drawn at random."""
        while at_least_one or (time.monotonic() < until and not self._proven):
            for pattern in [*self._patterns, *self._mixed_pattern()]:
                self._list(pattern, self._template(), patience=float(self._random.choice([0.0, 0.5, 1.0])))
            at_least_one = False

    def _mixed_pattern(self) -> Iterator[NDArray[np.bool_]]:
        """A random choice of stages that split their backwards, where that is allowed and fits."""
        if self.work.may_split:
            pattern = self._random.random(self.work.num_stages) < self._random.random()
            if self._is_possible(pattern):
                yield pattern

    def _is_possible(self, pattern: NDArray[np.bool_]) -> bool:
        return bool((self.work.alone_bytes(pattern) <= self.work.room_bytes).all())

    def _template(self) -> NDArray[np.float64]:
        """Keys [3, num_stages, num_units]: when every action would begin if each microbatch, or group of them, started
        a period after the one before it and took its way with random detours.

        The period is the load of the busiest rank for one microbatch. Larger detours before gradients let ranks run
        more forwards ahead; weight gradients wait a random time.
        """
        work, draw = self.work, self._random
        costs = work.costs
        period = float((costs.forward_ns + costs.backward_ns)[work.stage_table].sum(axis=0).max())
        forward_way = np.cumsum(costs.forward_ns + work.message_ns) - costs.forward_ns
        gradient = costs.backward_ns - (costs.weight_ns if work.may_split else 0)
        gradient_way = np.cumsum((gradient + work.message_ns)[::-1])[::-1] - gradient
        units = np.arange(work.num_units)
        group = int(draw.choice([1, 1, work.num_ranks, max(1, work.num_ranks // 2), work.num_units]))
        # In a group each stage runs all microbatches of it before the next stage of its rank does.
        slot = (units // group) * group * period + (units % group) * period * (
            1 / work.stage_table.shape[0] if group > 1 else 1.0
        )
        stretch_forward, stretch_gradient = draw.uniform(0.0, 2.5, size=2)
        detour = draw.uniform(-1.0, 2.0) * work.num_ranks * period / 2
        behind = draw.choice([0.0, 1.0, float(work.num_ranks), float(work.num_units)]) * draw.uniform(0.0, 2.0) * period
        chunk_shift = (group - 1) * period / work.stage_table.shape[0]
        chunk = np.zeros(work.num_stages)
        chunk[work.stage_table] = np.arange(work.stage_table.shape[0])[:, np.newaxis]
        keys = np.empty((3, work.num_stages, work.num_units))
        keys[0] = (stretch_forward * forward_way + chunk * chunk_shift)[:, np.newaxis] + slot
        whole = float(forward_way[-1])
        keys[1] = (detour + whole + stretch_gradient * gradient_way + (chunk.max() - chunk) * chunk_shift)[
            :, np.newaxis
        ] + slot
        keys[2] = keys[1] + behind
        return keys

    def _refine(self, *, until: float) -> None:
        """Orders from the times of the best one: its actions' earliest and latest starts, mixed and disturbed."""
        while self.best is not None and time.monotonic() < until and not self._proven:
            schedule, draw = self.best.schedule, self._random
            splits = splits_of(schedule)
            if splits is None:
                return
            early, late = self._windows(schedule)
            mix = draw.choice([0.0, 1.0, draw.uniform()])
            times = (1 - mix) * early + mix * late
            strength = draw.choice([0.0, 0.3, 1.0, 3.0])
            times = times + strength * self.work.costs.durations.mean() * draw.standard_normal(len(times))
            keys = np.zeros((3, self.work.num_stages, self.work.num_units))
            kinds = np.array([0, 1, 1, 2])[schedule.ops]
            keys[kinds, schedule.stages, self._places[kinds, schedule.units]] = times
            pattern = splits if draw.uniform() < 0.8 else self._patterns[draw.integers(len(self._patterns))]
            keys[2, pattern & ~splits] = keys[1, pattern & ~splits]
            self._list(pattern, keys, patience=float(draw.choice([0.0, 0.5, 1.0])))

    @property
    def _places(self) -> NDArray[np.int64]:
        """The place of every microbatch part among the forwards, gradients and weight gradients of a stage."""
        gradients = np.argsort(self.work.gradient_units)
        return np.stack((np.arange(self.work.num_units), gradients, gradients))

    def _windows(self, schedule: Schedule) -> tuple[Integers, Integers]:
        """Earliest and latest start of every action under its order."""
        graph = build_graph(schedule)
        durations = self.work.costs.durations
        timeline = run(graph, durations, self.communication)
        latest_ends = np.full(len(graph.sequence) + 1, timeline.makespan_ns, dtype=np.int64)
        lengths = durations[graph.classes]
        messages = graph.crosses_ranks * np.int64(self.work.message_ns)
        for index in range(len(graph.sequence) - 1, -1, -1):
            start = latest_ends[index + 1] - lengths[index]
            before, needed = graph.rank_predecessors[index], graph.dependencies[index]
            latest_ends[before] = min(latest_ends[before], start)
            latest_ends[needed] = min(latest_ends[needed], start - messages[index])
        late = np.empty_like(timeline.start_ns)
        late[graph.sequence] = latest_ends[1:] - lengths
        return timeline.start_ns, late

    def _list(self, splits: NDArray[np.bool_], keys: NDArray[np.float64], *, patience: float) -> None:
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
        """A round of local moves from the best order; returns how many moves the next round makes."""
        from evenflow.solve.order.move_kernel import Order, Room, anneal

        if self.best is None or self._proven:
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
            if began >= end or self._proven:
                break
            self.seed += 1
            hot = max(1.0, self.best.makespan_ns * temperature)
            makespan = anneal(
                self.seed, steps, hot, max(1.0, hot / 100), current, best, self.best.makespan_ns,
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
            costs.weight_bytes,
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
            name=NAME,
            num_stages=self.work.num_stages,
            num_microbatches=self.work.num_microbatches,
            sequence_splits=self.work.sequence_splits,
            stage_ranks=self.work.stage_ranks,
            orders=np.split(codes, starts[1:-1], axis=1),
        )


def _next_steps(steps: int, seconds: float, *, left_s: float) -> int:
    """So many that a round takes a second, or a part of what is left."""
    wanted = min(1.0, max(0.02, left_s / 4))
    return max(100, min(2 * steps, int(steps * wanted / max(seconds, 1e-6))))
