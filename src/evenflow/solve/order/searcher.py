"""A running search for orders: list scheduling with many keys, then local moves, in turn."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import ScheduleError
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.schedule import FAMILIES, Op, Schedule
from evenflow.solve.clock import now_s, shown_s, spend
from evenflow.solve.order.kernel_stages import kernel_stages
from evenflow.solve.order.keys import Keys, disturbed_keys, template_keys
from evenflow.solve.order.made_orders import MadeOrder, family_orders
from evenflow.solve.outcome import Progress, ProgressCallback
from evenflow.solve.work import Work, splits_of

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
_LISTED_SECONDS, _MOVED_SECONDS = 3e-6, 2e-8
"""Work for each action of a list that is scheduled, and of an order for a local move."""
_KEEP_SPLITS = 0.8
"""Probability with which disturbed keys keep the stages that split their backwards."""


@dataclass(kw_only=True)
class OrderSearch:
    """A running search for orders of some work, with the best one so far."""

    work: Work
    bound_ns: int
    best: MadeOrder | None = None
    seed: int = 0
    _random: np.random.Generator = field(init=False)
    _patterns: list[NDArray[np.bool_]] = field(init=False)
    """Sets of stages whose backwards may be split together."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._patterns = self.work.split_choices()

    def start_from(self, schedule: Schedule) -> None:
        """Take an order from outside if it is allowed, fits and is the best."""
        if (schedule.splits_backward and not self.work.may_split) or (schedule.has_pairs and not self.work.in_pairs):
            return
        if self.work.fits(schedule):
            self._take(schedule)

    def start_from_families(self, own: str, *, until: float) -> None:
        """Take the best order of all families, as they are and made for these times, until the time is up.

        All orders of the family `own` come first, if there is one, and then those of the others in turns.
        """
        for order in family_orders(own, self.work) if own in FAMILIES else ():
            if self.best is None or order.makespan_ns < self.best.makespan_ns:
                self._take(order.schedule)
            if self._is_over or now_s() >= until:
                break
        left = [family_orders(name, self.work) for name in FAMILIES if name != own]
        first = True
        while left and not self._is_over and (first or now_s() < until):
            still = []
            for orders in left:
                made = next(orders, None)
                if made is not None:
                    still.append(orders)
                    if self.best is None or made.makespan_ns < self.best.makespan_ns:
                        self._take(made.schedule)
            left, first = still, False

    def split_best(self) -> None:
        """Try the best order with its backwards split in place.

        Local moves then find better places for the weight gradients.
        """
        for pattern in self._patterns:
            if self.best is not None and pattern.any():
                split = split_in_place(self.best.schedule, pattern)
                if self.work.fits(split):
                    self._take(split)

    def improve(self, *, began: float, time_limit_s: float, progress: ProgressCallback | None) -> None:
        """Construct, refine and anneal orders in turn until the time is up or the bound is met."""
        end, steps, reported = began + time_limit_s, _FIRST_STEPS, began
        first = True
        while first or (now_s() < end and not self._is_over):
            if progress and shown_s() - reported >= _REPORT_SECONDS:
                reported = shown_s()
                progress(self._progress(began))
            now = now_s()
            share = _FIRST_SECONDS if first else max(_LEAST_SECONDS, _SHARE * (end - now))
            if self.best is None or not self.work.has_copies:  # list scheduling knows no copies
                self._construct(until=min(end, now + share), at_least_one=self.best is None)
                self._refine(until=min(end, now_s() + share))
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
            seconds=shown_s() - began,
            phase=_("searching orders"),
            makespan_ns=self.best.makespan_ns if self.best else None,
            lower_bound_ns=self.bound_ns,
        )

    def _take(self, schedule: Schedule) -> None:
        """Remember an order if it is the best; its makespan is the simulator's.

        Where anything is copied it must fit too: list scheduling knows no copies.
        """
        if self.work.has_copies and not self.work.fits(schedule):
            return
        makespan = self.work.makespan_ns(schedule)
        if self.best is None or makespan < self.best.makespan_ns:
            self.best = MadeOrder(schedule=schedule, makespan_ns=makespan)

    # -- list scheduling -------------------------------------------------------------------------------------------

    def _construct(self, *, until: float, at_least_one: bool) -> None:
        """Construct orders by list scheduling with keys drawn at random."""
        while at_least_one or (now_s() < until and not self._is_over):
            for pattern in [*self._patterns, *self._mixed_pattern()]:
                if self._is_over:
                    return
                self._list(
                    pattern, template_keys(self.work, self._random), patience=float(self._random.choice(_PATIENCE))
                )
            at_least_one = False

    def _mixed_pattern(self) -> Iterator[NDArray[np.bool_]]:
        """Yield a random choice of stages that split their backwards, if that is allowed and fits."""
        if self.work.may_split:
            pattern = self._random.random(self.work.num_stages) < self._random.random()
            if self.work.can_split(pattern):
                yield pattern

    def _refine(self, *, until: float) -> None:
        """Construct orders from the best one, by disturbing the earliest and latest starts of its actions."""
        while self.best is not None and now_s() < until and not self._is_over:
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
        starts = work.rank_starts(splits)
        codes = np.empty((3, starts[-1]), dtype=np.int32)
        makespan = list_schedule(keys, patience, kernel_stages(work, splits), starts, *codes)
        spend(starts[-1] * _LISTED_SECONDS)
        if self.best is None or makespan < self.best.makespan_ns:
            self._take(work.schedule(codes, starts, name=SEARCHED))
        if work.in_pairs:
            with suppress(ScheduleError):  # ranks wait for each other
                self._take(_neighbours_paired(work.schedule(codes, starts, name=SEARCHED), work))

    # -- local moves -----------------------------------------------------------------------------------------------

    def anneal(self, *, steps: int, end: float) -> int:
        """Run a round of local moves from the best order; returns the number of moves for the next round."""
        from evenflow.solve.order.copies_kernel import Order, copy_room, most_nodes, node_arrays
        from evenflow.solve.order.move_kernel import Room, anneal

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
                _pairs(schedule) if self.work.in_pairs else np.zeros(0, dtype=np.bool_),
            )
            for _ in range(2)
        )
        num_flags = len(current.pairs)
        room = Room(
            np.zeros((2, schedule.num_stages, schedule.num_units), dtype=np.uint32),
            node_arrays(count, schedule.num_ranks),
            np.zeros(count, dtype=np.int64),
            np.zeros(num_flags, dtype=np.uint32),
            np.zeros(num_flags, dtype=np.bool_),
        )
        num_copied = count if self.work.has_copies else 0
        copies = copy_room(num_stages=schedule.num_stages, num_units=schedule.num_units, num_actions=num_copied)
        copied = node_arrays(most_nodes(num_copied), schedule.num_ranks)
        for temperature in _TEMPERATURES:
            began = now_s()
            if began >= end or self._is_over:
                break
            round_seed = int(self._random.integers(2**31))
            hot = max(1.0, self.best.makespan_ns * temperature)
            makespan = anneal(
                round_seed, steps, hot, max(1.0, hot / _COOLING), current, best, self.best.makespan_ns,
                kernel_stages(self.work, splits), starts, room, copies, copied,
            )  # fmt: skip
            spend(steps * count * _MOVED_SECONDS)
            if makespan < self.best.makespan_ns:
                rows = (best.ops, best.stages, best.units, *([best.pairs] if num_flags else ()))
                codes = np.stack(rows).astype(np.int32)
                self._take(self.work.schedule(codes, starts, name=SEARCHED))
            for target, source in zip(current, best, strict=True):
                target[:] = source
            seconds = now_s() - began
            steps = _next_steps(steps, seconds, left_s=end - now_s())
        return steps


def _pairs(schedule: Schedule) -> NDArray[np.bool_]:
    """Return which actions are forwards that run beside backwards, shape [num_actions]; the caller may change it."""
    return np.zeros(schedule.num_actions, dtype=np.bool_) if schedule.pairs is None else schedule.pairs.copy()


def _neighbours_paired(schedule: Schedule, work: Work) -> Schedule:
    """Return the order with every forward beside a whole backward that follows it, where that saves time."""
    saved_ns = work.costs.saved_ns
    assert saved_ns is not None
    ops, stages = schedule.ops, schedule.stages
    neighbours = (ops[:-1] == Op.F) & (ops[1:] == Op.B) & (schedule.ranks[:-1] == schedule.ranks[1:])
    neighbours &= saved_ns[stages[:-1], work.stage_chunks[stages[1:]]] > 0
    return replace(schedule, pairs=np.append(neighbours, False) if neighbours.any() else None)


def split_in_place(schedule: Schedule, pattern: NDArray[np.bool_]) -> Schedule:
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
