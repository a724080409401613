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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from evenflow.model import v_shaped
from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Schedule

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
    orders = min(candidates, key=_Squeeze.run).orders
    num_ranks = len(block)
    return Schedule.from_orders(
        name=name,
        num_stages=2 * num_ranks,
        num_microbatches=num_microbatches,
        stage_ranks=v_shaped(num_ranks=num_ranks),
        orders=[np.array(order, dtype=np.int32).T for order in orders],
    )


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
    """Codes of op, stage and microbatch of each action, one list per rank."""
    counts: list[list[int]] = field(init=False)
    """Number of microbatches that every rank has started in each step of the block, [num_ranks][4]."""
    ended: list[list[int]] = field(init=False)
    """Number of microbatches that have ended before this unit, [num_ranks][4]."""
    waiting: list[deque[tuple[int, int]]] = field(init=False)
    """Stages and microbatches of the weight gradients that could run, one queue per rank."""
    num_weights: list[int] = field(init=False)
    """Number of weight gradients that every rank has run."""

    def __post_init__(self) -> None:
        num_ranks = len(self.block)
        self.orders = [[] for _ in range(num_ranks)]
        self.counts = [[0] * 4 for _ in range(num_ranks)]
        self.waiting = [deque() for _ in range(num_ranks)]
        self.num_weights = [0] * num_ranks

    def run(self) -> int:
        """Fill `orders` and return the number of units that they take."""
        units = 0
        while any(len(order) < PERIOD * self.num_microbatches for order in self.orders):
            self.ended = [counts.copy() for counts in self.counts]
            for rank in range(len(self.block)):
                self._run_one(rank)
            units += 1
        return units

    def _run_one(self, rank: int) -> None:
        """Run the next action of `rank`, if it has one for this unit."""
        counts, waiting = self.counts[rank], self.waiting[rank]
        step = self._next_step(rank)
        is_full = counts[0] + counts[1] - self.num_weights[rank] >= self.most_live
        if step is None or (step < _NUM_FORWARDS and is_full):
            if waiting:
                self.orders[rank].append((Op.W, *waiting.popleft()))
                self.num_weights[rank] += 1
            return
        op, chunk = _STEPS[step]
        stage, microbatch = (2 * len(self.block) - 1 - rank if chunk else rank), counts[step]
        self.orders[rank].append((op, stage, microbatch))
        if op == Op.I:
            waiting.append((stage, microbatch))
        counts[step] += 1

    def _next_step(self, rank: int) -> int | None:
        """Return the first step in the order of the block whose input is there, and memory for it; None if none is.

        Memory is enough where the order that is left still fits after the change. A weight gradient can always make
        room, so only activations without an input gradient count. This way the first action of all that are left in
        the block can always run, and no run is ever stuck.
        """
        counts = self.counts[rank]
        take_early = (self.warmup and counts[3] == 0) or (self.cooldown and counts[0] == self.num_microbatches)
        starts = [start + PERIOD * count for start, count in zip(self.block[rank], counts, strict=True)]
        left = [step for step in range(4) if counts[step] < self.num_microbatches]
        for place, step in enumerate(sorted(left, key=starts.__getitem__)):
            if self._is_ready(rank, step) and (
                place == 0 or step >= _NUM_FORWARDS or self._peak_before(rank, starts, starts[step]) < self.most_live
            ):
                return step
            if not take_early:
                return None
        return None

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

    def _peak_before(self, rank: int, starts: list[int], end: int) -> int:
        """Return the most activations live while the rank runs all that stands before `end`, where gradients free."""
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
