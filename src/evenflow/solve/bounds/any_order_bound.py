"""Lower bounds on the step over all cuts, all recomputation and all orders of work, within a memory limit.

There are two relaxations, both for any placement of equally many stages per rank:

- *All ranks together.* Their work is the network's, and at least so many of them wait for the first microbatch to come
  and, if backwards are whole, the last to go. Their memory is bytes times time: a layer's activation is held at least
  from its forward until the network behind it has gone forward and backward. One multiplier weighs work against memory;
  every layer then takes its cheapest kind of recomputation.
- *One chunk per rank.* Rank r does nothing before its first forward has passed all layers before it, nor after its last
  gradient has left it to pass them back. If it holds K microbatches at once, it must recompute until K fit; it can run
  no more than K forwards before its first gradient, which comes after a whole trip through the layers behind, nor more
  than K gradients after its last forward, and all others come between these two; and K are at least what that trip
  makes on average. A dynamic program over the cuts asks for each target whether all ranks can keep to it, each with a K
  of its own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Network, Request
from evenflow.simulate import Integers, LayerSums, at_best_in_pairs, layer_sums
from evenflow.solve.bounds.even_shares import lowered, step_work_ns

Values = NDArray[np.float64]
_MULTIPLIERS = 33
"""Number of multipliers tried between work and memory: each gives a bound, and more tighten it little."""
_TOO_MUCH = 1e30
"""Recomputation in ns of layers that fit under no kind."""
_MORE_LIVE = 4
"""Number beyond the ranks up to which numbers of microbatches at once are told apart."""
_BISECTIONS = 40
"""Most halvings of the interval of a bisection."""
_GROWTH = 1.5
"""Factor between the targets that a bisection tries for its upper end."""
_OUT_OF_REACH, _OUT_OF_REACH_NS = 1e3, 1e18
"""Multiple of the bound, and time in ns beside it, above which the upper end is given up: no plan fits at all."""
_LOWEST_PRICE, _HIGHEST_PRICE = 1e-2, 1e3
"""Range of prices of an activation byte, as multiples of the largest recomputation over the largest activation."""
_ROUNDING = 1e-9
"""Fraction by which activations must exceed their room not to fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyPlan:
    """The sizes and limits shared by all plans that a bound is for."""

    network: Network
    """The network with the costs of one part of a split sequence."""
    num_ranks: int
    num_chunks: int
    num_units: int
    """Number of microbatch parts of a step."""
    min_layers: int
    """Fewest layers of a cell."""
    memory_limit_bytes: int | None
    message_ns: int
    may_split: bool
    """Whether backwards may be split."""

    @classmethod
    def of(cls, request: Request, *, may_split: bool, in_pairs: bool = False) -> "AnyPlan":
        """Return the sizes and limits of all plans of `request`, or of those too that run forwards `in_pairs`."""
        sizes, network = request.sizes, request.network
        units = network.split_sequence(sizes.sequence_splits)
        return cls(
            network=at_best_in_pairs(units) if in_pairs else units,
            num_ranks=sizes.num_ranks,
            num_chunks=sizes.num_chunks,
            num_units=sizes.num_units,
            min_layers=request.min_layers,
            memory_limit_bytes=request.memory_limit_bytes if network.has_memory else None,
            message_ns=request.message_ns,
            may_split=may_split,
        )


def any_order_bound_ns(plans: AnyPlan) -> int:
    """Return a lower bound in ns on the step of any plan with these sizes, in any order of work."""
    sums = layer_sums(plans.network)
    bound = _together(plans, sums)
    if plans.num_chunks == 1:
        bound = max(bound, _one_chunk(plans, sums, at_least=bound))
    return int(lowered(bound))


def _gradient(plans: AnyPlan, sums: LayerSums) -> Values:
    """Return prefix sums of the gradients that the stage before waits for, without recomputation."""
    whole = sums.backward_ns[-1].astype(float)
    return np.asarray(whole - sums.weight_ns) if plans.may_split else whole


def _together(plans: AnyPlan, sums: LayerSums) -> float:
    """Return the bound in ns of the relaxation of all ranks together."""
    network, ranks, units = plans.network, plans.num_ranks, plans.num_units
    ends = (network.head, network.tail)
    forward, gradient = np.diff(sums.forward_ns), np.diff(_gradient(plans, sums))
    backward = np.diff(sums.backward_ns, axis=1)
    extra = (backward - backward[-1]).astype(float)  # [kinds, layers]
    # The rank that is reached k-th waits for k stages at least.
    before = plans.min_layers * int(forward.min()) + plans.message_ns
    after = 0 if plans.may_split else plans.min_layers * int(gradient.min()) + plans.message_ns
    head_after = 0 if plans.may_split else network.head.backward_ns
    waits = ranks * (ranks - 1) / 2 * (before + after) + (ranks - 1) * (network.head.forward_ns + head_after)
    work = step_work_ns(network, num_units=units) + waits
    if plans.memory_limit_bytes is None:
        return work / ranks
    room = ranks * (plans.memory_limit_bytes - network.constant_bytes) - sum(end.parameter_bytes for end in ends)
    room -= int(sums.parameter_bytes[-1])
    if room <= 0:
        return work / ranks
    trip = _trips(plans, sums)[:-1]
    held = np.diff(sums.activation_bytes, axis=1) * trip  # [kinds, layers], bytes times time
    if plans.may_split:
        least = np.minimum(np.diff(sums.activation_bytes, axis=1), np.diff(sums.until_weight_bytes))
        held = held + least * np.diff(sums.weight_ns)
    best = work / ranks
    for share in np.linspace(0.0, 1.0, _MULTIPLIERS):
        # share * (ranks T >= work + extra) + (1 - share) * (T >= held / room), the second in units of ranks T
        weighed = share * extra + (1 - share) * ranks * held / room
        best = max(best, (share * work + units * weighed.min(axis=0).sum()) / ranks)
    return float(best)


def _trips(plans: AnyPlan, sums: LayerSums) -> Values:
    """Return the least time from the start of each layer's forward to its gradient's end, shape [num_layers + 1]."""
    tail = plans.network.tail
    way = sums.forward_ns + _gradient(plans, sums)
    return np.asarray(
        way[-1] - way + tail.forward_ns + tail.backward_ns - (tail.weight_ns if plans.may_split else 0), dtype=float
    )


def _one_chunk(plans: AnyPlan, sums: LayerSums, *, at_least: float) -> float:
    """Return the largest time found by bisection that is at least the bound `at_least` and that no plan can reach."""
    cells = _Ranks(plans, sums)
    low, high = at_least, at_least
    while not cells.reachable(high):
        low, high = high, _GROWTH * high + 1
        if high > _OUT_OF_REACH * at_least + _OUT_OF_REACH_NS:
            return low
    for _ in range(_BISECTIONS):
        if high - low <= 1:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if cells.reachable(middle) else (middle, high)
    return low


class _Ranks:
    """The cells of all ranks in a row: the first has the head and the last the tail, also where they have no layers."""

    def __init__(self, plans: AnyPlan, sums: LayerSums) -> None:
        every, end = np.arange(plans.network.num_layers + 1), np.array([plans.network.num_layers])
        begin, self.ranks = np.array([0]), plans.num_ranks
        if self.ranks == 1:
            self.cells = [_Cells(plans, sums, begin, end, has_head=True, has_tail=True)]
            return
        first = _Cells(plans, sums, begin, every, has_head=True, has_tail=False)
        last = _Cells(plans, sums, every, end, has_head=False, has_tail=True)
        self.cells = [first, last]
        if self.ranks > 2:
            self.cells.insert(1, _Cells(plans, sums, every, every, has_head=False, has_tail=False))

    def reachable(self, target_ns: float) -> bool:
        """Return whether cuts exist with which each rank alone can keep to the target."""
        reached = np.ones(1, dtype=bool)  # of the layers at which the next cell may begin
        for number, cells in enumerate(self.cells):
            fits = cells.fits(target_ns) & cells.possible
            for _ in range(self.ranks - 2 if 0 < number < len(self.cells) - 1 else 1):
                reached = np.asarray((reached[:, np.newaxis] & fits).any(axis=0))
        return bool(reached[-1])


class _Cells:
    """Tables of runs of layers [a, b) as cells, each alone on its rank, of shape [begins, ends].

    Messages are left out.
    """

    def __init__(
        self, plans: AnyPlan, sums: LayerSums, begins: Integers, ends: Integers, *, has_head: bool, has_tail: bool
    ) -> None:
        network, self.plans = plans.network, plans
        units = plans.num_units
        first, last = begins[:, np.newaxis], ends[np.newaxis, :]
        head, tail = network.head, network.tail
        head_gradient = head.backward_ns - (head.weight_ns if plans.may_split else 0)
        tail_gradient = tail.backward_ns - (tail.weight_ns if plans.may_split else 0)

        def run(prefix: Values | Integers, head: int, tail: int) -> Values:
            values = prefix.astype(float)
            return np.asarray(values[last] - values[first] + has_head * head + has_tail * tail)

        self.possible = last - first >= plans.min_layers
        self.forward = run(sums.forward_ns, head.forward_ns, tail.forward_ns)
        self.gradient = run(_gradient(plans, sums), head_gradient, tail_gradient)
        self.backward = run(sums.backward_ns[-1], head.backward_ns, tail.backward_ns)
        self.before = sums.forward_ns[first] + (not has_head) * float(head.forward_ns)
        self.after = _gradient(plans, sums)[first] + (not has_head) * float(head_gradient)
        self.trip = _trips(plans, sums)[first] + has_head * float(head.forward_ns + head_gradient)
        # Of K microbatches at once each has a K-th of the room; recomputation that makes them fit costs at least
        #   min over kinds (extra + price * activation) - price * room / K,   for any price.
        if plans.memory_limit_bytes is None:
            self.live = np.array([units])
            self.recompute = np.zeros((1, *self.possible.shape))
            return
        static = run(sums.parameter_bytes, head.parameter_bytes, tail.parameter_bytes) + network.constant_bytes
        room = plans.memory_limit_bytes - static
        self.live = np.arange(1, min(units, plans.num_ranks + _MORE_LIVE) + 1)
        of_ends = has_head * head.activation_bytes + has_tail * tail.activation_bytes
        allowed = room / self.live[:, np.newaxis, np.newaxis] - of_ends
        extra = np.diff(sums.backward_ns - sums.backward_ns[-1], axis=1).astype(float)
        size = np.diff(sums.activation_bytes, axis=1).astype(float)
        scale = max(1.0, float(extra.max(initial=0))) / max(1.0, float(size.max(initial=0)))
        self.recompute = np.where(allowed >= 0, 0.0, _TOO_MUCH)
        for price in scale * np.geomspace(_LOWEST_PRICE, _HIGHEST_PRICE, _MULTIPLIERS):
            priced = run(np.concatenate(([0.0], np.cumsum((extra + price * size).min(axis=0)))), 0, 0)
            self.recompute = np.maximum(self.recompute, priced - price * allowed)
        least = run(np.concatenate(([0.0], np.cumsum(size.min(axis=0)))), 0, 0)
        self.recompute[least > allowed * (1 + _ROUNDING)] = _TOO_MUCH

    def fits(self, target_ns: float) -> NDArray[np.bool_]:
        """Return, for every run of layers as a cell, whether some number of microbatches at once meets the target."""
        units, split = self.plans.num_units, self.plans.may_split
        idle_after = 0.0 if split else self.after  # weight gradients may come last
        span = target_ns - self.before - self.after  # in which the rank holds activations
        fits = np.zeros_like(self.possible)
        for live, recompute in zip(self.live, self.recompute, strict=True):
            # The last entry stands for all larger numbers too: nothing but its recomputation counts for them.
            late = 0 if live == self.live[-1] else units - live
            enough = live == self.live[-1] or units * self.trip <= live * span
            backward = self.backward + recompute
            load = self.before + units * (self.forward + backward) + idle_after
            # The first gradient comes after a whole trip, and only so many forwards run before it.
            warmup = self.before + self.trip - self.gradient + units * backward + late * self.forward + idle_after
            # Likewise after the last forward.
            gradient = self.gradient + recompute
            cooldown = self.before + (units - 1) * self.forward + late * gradient + self.trip + recompute + self.after
            needed = np.maximum(np.maximum(load, warmup), cooldown)
            if late:  # a forward comes after a gradient, so both times are apart
                turns = 2 * self.trip - self.forward - self.gradient + recompute + self.after
                needed = np.maximum(needed, self.before + turns + late * (self.forward + gradient))
            fits |= enough & (needed <= target_ns)
        return fits
