"""Schedules that repeat a building block, the actions of one microbatch. [Controllable memory, arXiv:2405.15362]

A block gives the times of a microbatch's forwards and input gradients on every rank, in units of one action. Every
`PERIOD` units the next microbatch does the same, so the time from a forward to its input gradient decides how many
activations are live. Two of the six units of a period are left for weight gradients.

The repeated block is then squeezed: each rank runs its actions unit by unit, as soon as their inputs are there, and
fills gaps with weight gradients. Before and after the steady phase it may take a later action of its order first where
memory allows that. In the steady phase the order of the block stays: orders that change it can wait longer with every
microbatch where times are not equal.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from evenflow.model import v_shaped
from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Codes, Schedule

PERIOD = 6
"""Units from one microbatch to the next: forward, input and weight gradient of two chunks."""

Block: TypeAlias = Sequence[tuple[int, int, int, int]]
"""Units at which microbatch 0 runs F of chunk 0, F of chunk 1, I of chunk 1 and I of chunk 0, for every rank."""

_STEPS = ((Op.F, 0), (Op.F, 1), (Op.I, 1), (Op.I, 0))
"""Operation and chunk of the four entries of a block."""
_NUM_FORWARDS = 2
"""Number of forwards in a block, which are its first entries."""


def unroll(block: Block, *, name: str, num_microbatches: int, most_live: int) -> Schedule:
    """Repeat and squeeze `block` on the V-shaped placement, with at most `most_live` chunk activations per rank.

    An activation counts from its forward to the end of its weight gradient. Actions are taken early in the warm-up, in
    warm-up and cool-down, or nowhere; of these three, the schedule that is shortest for equal times is returned.
    """
    candidates = [
        _Squeeze(block=block, num_microbatches=num_microbatches, most_live=most_live, warmup=warmup, cooldown=cooldown)
        for warmup, cooldown in ((True, False), (True, True), (False, False))
    ]
    orders = min(candidates, key=_Squeeze.run).codes()
    num_ranks = len(block)
    return Schedule.from_orders(
        name=name,
        num_stages=2 * num_ranks,
        num_microbatches=num_microbatches,
        stage_ranks=v_shaped(num_ranks=num_ranks),
        orders=orders,
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """The beginning of a unit."""

    units: int
    microbatches: int
    """Of which rank 0 has begun the first forward."""
    lengths: list[int]
    """Actions that every rank has run."""


@dataclass(frozen=True, slots=True)
class _Repeated:
    """The actions of all ranks between two moments, and how many times more they are repeated."""

    begin: _Moment
    end: _Moment
    times: int

    @property
    def microbatches(self) -> int:
        """Microbatches of one time."""
        return self.end.microbatches - self.begin.microbatches

    @property
    def num_actions(self) -> int:
        """Actions of all times."""
        return self.times * (sum(self.end.lengths) - sum(self.begin.lengths))


@dataclass(kw_only=True)
class _Squeeze:
    """One run of the unrolled block, unit by unit."""

    block: Block
    num_microbatches: int
    most_live: int
    warmup: bool
    """Whether a rank takes actions early before its first gradient of chunk 0."""
    cooldown: bool
    """Whether a rank takes actions early after its last forward of chunk 0."""
    orders: list[list[tuple[int, int, int]]] = field(init=False)
    """Codes of op, stage and microbatch of each action, one list per rank, what is repeated left out."""
    repeated: _Repeated | None = field(init=False, default=None)
    counts: list[list[int]] = field(init=False)
    """Number of microbatches that every rank has started in each step of the block, [num_ranks][4]."""
    ended: list[list[int]] = field(init=False)
    """Number of microbatches that have ended before this unit, [num_ranks][4]."""
    waiting: list[deque[tuple[int, int]]] = field(init=False)
    """Stages and microbatches of the weight gradients that could run, one queue per rank."""
    num_weights: list[int] = field(init=False)
    """Number of weight gradients that every rank has run."""
    left: list[list[int] | None] = field(init=False)
    """Steps of the block that a rank has not ended, in the order of the block; None: to be sorted anew."""

    def __post_init__(self) -> None:
        num_ranks = len(self.block)
        self.orders = [[] for _ in range(num_ranks)]
        self.counts = [[0] * 4 for _ in range(num_ranks)]
        self.waiting = [deque() for _ in range(num_ranks)]
        self.num_weights = [0] * num_ranks
        self.left = [None] * num_ranks

    def run(self) -> int:
        """Fill `orders` and return the number of units that they take."""
        units = 0
        seen: dict[tuple[tuple[int, ...], ...], _Moment] = {}
        left = PERIOD * self.num_microbatches * len(self.block)
        ranks = range(len(self.block))
        awake: Iterable[int] = ranks  # what a rank can do depends on what it and its neighbours have done
        self.ended = [counts.copy() for counts in self.counts]
        while left:
            if self.repeated is None and self._is_steady:
                now = _Moment(units, self.counts[0][0], [len(order) for order in self.orders])
                before = seen.setdefault(self._standing(), now)
                if before is not now:
                    self.repeated = _Repeated(before, now, self._num_repeats(now.microbatches - before.microbatches))
                    self._skip(self.repeated)
                    units += self.repeated.times * (now.units - before.units)
                    left -= self.repeated.num_actions
                    self.ended, awake = [counts.copy() for counts in self.counts], ranks
            acted = [rank for rank in awake if self._run_one(rank)]
            for rank in acted:
                self.ended[rank] = self.counts[rank].copy()
            awake = {near for rank in acted for near in (rank - 1, rank, rank + 1) if near in ranks}
            left -= len(acted)
            units += 1
        return units

    def codes(self) -> list[Codes]:
        """Return the orders with what is repeated, shape [3, num_actions] of each rank."""
        actions = []
        for rank, order in enumerate(self.orders):
            codes = np.array(order, dtype=np.int32).T
            if self.repeated is not None:
                begin, end = self.repeated.begin.lengths[rank], self.repeated.end.lengths[rank]
                again = np.tile(codes[:, begin:end], self.repeated.times)
                numbers = np.repeat(np.arange(1, self.repeated.times + 1), end - begin)
                again[2] += (numbers * self.repeated.microbatches).astype(np.int32)
                codes = np.concatenate((codes[:, :end], again, codes[:, end:]), axis=1)
            actions.append(codes)
        return actions

    @property
    def _is_steady(self) -> bool:
        """Whether no rank takes actions early or has had its last forward: nothing depends on how many follow."""
        return all(counts[3] > 0 and counts[0] < self.num_microbatches for counts in self.counts)

    def _standing(self) -> tuple[tuple[int, ...], ...]:
        """Return the state that decides the further order in the steady phase, counted from the first forward."""
        first = self.counts[0][0]
        return tuple(
            (
                *(count - first for count in counts),
                weights - 2 * first,
                *(microbatch - first for _stage, microbatch in waiting),
                *(stage for stage, _microbatch in waiting),
            )
            for counts, weights, waiting in zip(self.counts, self.num_weights, self.waiting, strict=True)
        )

    def _num_repeats(self, microbatches: int) -> int:
        """Return how often the steady phase can be repeated with the microbatches that are left."""
        most = max(counts[0] for counts in self.counts)
        return (self.num_microbatches - 1 - most) // microbatches

    def _skip(self, repeated: _Repeated) -> None:
        """Go on behind what is repeated."""
        ahead = repeated.times * repeated.microbatches
        for rank, waiting in enumerate(self.waiting):
            self.counts[rank] = [count + ahead for count in self.counts[rank]]
            self.left[rank] = None
            self.num_weights[rank] += 2 * ahead
            self.waiting[rank] = deque((stage, microbatch + ahead) for stage, microbatch in waiting)

    def _run_one(self, rank: int) -> bool:
        """Run the next action of `rank`, if it has one for this unit; returns whether it has."""
        counts, waiting = self.counts[rank], self.waiting[rank]
        step = self._next_step(rank)
        if step is None or (step < _NUM_FORWARDS and counts[0] + counts[1] - self.num_weights[rank] >= self.most_live):
            if not waiting:
                return False
            self.orders[rank].append((Op.W, *waiting.popleft()))
            self.num_weights[rank] += 1
            return True
        op, chunk = _STEPS[step]
        stage, microbatch = (2 * len(self.block) - 1 - rank if chunk else rank), counts[step]
        self.orders[rank].append((op, stage, microbatch))
        if op == Op.I:
            waiting.append((stage, microbatch))
        counts[step] += 1
        self.left[rank] = None
        return True

    def _next_step(self, rank: int) -> int | None:
        """Return the first step in the order of the block whose input is there, and memory for it; None if none is.

        Memory is enough where the order that is left still fits after the change. A weight gradient can always make
        room, so only activations without an input gradient count. This way the first action of all that are left in
        the block can always run, and no run is ever stuck.
        """
        counts = self.counts[rank]
        take_early = (self.warmup and counts[3] == 0) or (self.cooldown and counts[0] == self.num_microbatches)
        left = self.left[rank]
        if left is None:
            starts = self._starts(rank)
            steps = [step for step in range(4) if counts[step] < self.num_microbatches]
            left = self.left[rank] = sorted(steps, key=starts.__getitem__)
        if not take_early:
            return left[0] if left and self._is_ready(rank, left[0]) else None
        for place, step in enumerate(left):
            if self._is_ready(rank, step) and (
                place == 0 or step >= _NUM_FORWARDS or self._peak_before(rank, step) < self.most_live
            ):
                return step
        return None

    def _starts(self, rank: int) -> list[int]:
        """Return the units of the next microbatch of every step in the block."""
        return [start + PERIOD * count for start, count in zip(self.block[rank], self.counts[rank], strict=True)]

    def _is_ready(self, rank: int, step: int) -> bool:
        """Return whether the input of the next microbatch of `step` has been computed in an earlier unit."""
        last = len(self.block) - 1
        goes_down = step in (0, 2)
        number = self.counts[rank][step]
        if goes_down and rank > 0:
            return self.ended[rank - 1][step] > number
        if not goes_down and rank < last:
            return self.ended[rank + 1][step] > number
        return step == 0 or self.ended[rank][step - 1] > number  # the turns of the V, and the first stage

    def _peak_before(self, rank: int, later: int) -> int:
        """Return the most activations live while the rank runs all that stands before step `later`; gradients free."""
        starts = self._starts(rank)
        end = starts[later]
        events = [
            (unit, 1 if step < _NUM_FORWARDS else -1)
            for step in range(4)
            for unit in range(starts[step], min(end, self.block[rank][step] + PERIOD * self.num_microbatches), PERIOD)
        ]
        counts = self.counts[rank]
        live = peak = counts[0] + counts[1] - counts[2] - counts[3]
        for _, change in sorted(events):
            live += change
            peak = max(peak, live)
        return peak
