"""The cost of bringing a tensor from one placement to another, by the cheapest sequence of collectives."""

import itertools
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.cluster import (
    PARTIAL,
    REPLICATE,
    Collective,
    Mesh,
    Placement,
    WholeTensor,
    collective_ns,
    digits,
    local_bytes,
    placements,
)
from evenflow.cluster.splits.split_digits import Digits, without_axis
from evenflow.simulate.compiled import compiled
from evenflow_torch.auto.sharding.pairwise import Costs

_SPLIT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of a placement on one mesh axis, by one collective."""

    collective: Collective | None
    """None: every device keeps a part of what it has, which is free."""
    axis: int
    time_ns: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Redistribution:
    """The moves between all pairs of placements of one tensor on one mesh."""

    placements: tuple[Placement, ...]
    index: dict[Placement, int]
    costs: Costs
    """Nanoseconds ``costs[i, j]`` from placement i to j; infinite where there is no way."""
    steps: dict[tuple[int, int], Step]
    """The single change of a mesh axis between two placements, where there is one."""
    next_hop: NDArray[np.intp]
    """``next_hop[i, j]`` is the placement after the first collective on the way from i to j."""

    def route(self, source: Placement, target: Placement) -> tuple[Step, ...]:
        """Return the collectives of the cheapest way; steps that are free are left out."""
        here, there = self.index[source], self.index[target]
        route = []
        while here != there:
            after = int(self.next_hop[here, there])
            route.append(self.steps[here, after])
            here = after
        return tuple(step for step in route if step.time_ns)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MovesThroughViews:
    """The moves from each placement of a tensor, through views, to each placement of the last view's result."""

    costs: Costs
    index: dict[Placement, int]
    """The columns of `costs`."""
    arriving: NDArray[np.intp]
    """Placements that the first view can take, by their index among those of the tensor."""
    leaving: NDArray[np.intp]
    """What the first view makes of them, by its index among those of its result."""
    paths: dict[tuple[Placement, Placement], tuple[Step, ...]] = field(default_factory=dict)
    """Collectives on the cheapest ways between placements, for the pairs asked about so far."""


@dataclass(kw_only=True)
class RedistributionTable:
    """Redistributions on one mesh, worked out once for each shape of tensor."""

    mesh: Mesh
    through: dict[Hashable, MovesThroughViews] = field(default_factory=dict)
    """Moves through views, by tensor and views; `ShardingProgram` works them out."""
    _tables: dict[WholeTensor, Redistribution] = field(default_factory=dict)

    def of(self, tensor: WholeTensor) -> Redistribution:
        """Return the moves between all pairs of placements of `tensor`, partial sums among them."""
        table = self._tables.get(tensor)
        if table is None:
            table = self._tables[tensor] = _all_pairs(tensor, self.mesh)
        return table


def _all_pairs(tensor: WholeTensor, mesh: Mesh) -> Redistribution:
    """Find the cheapest ways between placements, by Floyd and Warshall; a step changes one mesh axis."""
    states = tuple(placements(tensor, mesh.shape, partial=True))
    index = {state: i for i, state in enumerate(states)}
    held = [digits(tensor.shape, state, mesh.shape) for state in states]
    costs = np.full((len(states), len(states)), np.inf)
    np.fill_diagonal(costs, 0)
    next_hop = np.tile(np.arange(len(states)), (len(states), 1))
    steps = {}
    for axis in range(len(mesh.shape)):
        alike: dict[object, list[int]] = defaultdict(list)
        for i, state in enumerate(states):
            own = held[i]
            assert own is not None
            alike[_beside(own, state, axis)].append(i)
        for those in alike.values():
            single = _single_steps(tensor, states[those[0]], mesh, axis)
            for i, j in itertools.permutations(those, 2):
                step = single.get((_kind(states[i][axis]), _kind(states[j][axis])))
                if step is not None and states[i][axis] != states[j][axis]:
                    steps[i, j] = step
                    costs[i, j] = step.time_ns
    compiled(cheapest_ways)(costs, next_hop)
    return Redistribution(placements=states, index=index, costs=costs, steps=steps, next_hop=next_hop)


def cheapest_ways(costs: Any, next_hop: Any) -> None:
    """Complete single steps to the cheapest ways between all pairs."""
    for middle in range(len(costs)):
        for start in range(len(costs)):
            begun = costs[start, middle]
            if begun == np.inf:
                continue
            for end in range(len(costs)):
                if begun + costs[middle, end] < costs[start, end]:
                    costs[start, end] = begun + costs[middle, end]
                    next_hop[start, end] = next_hop[start, middle]


def _beside(held: Digits, placement: Placement, axis: int) -> object:
    """Return what other axes do with a tensor, which a collective on this axis cannot change.

    A dimension split by two axes is split by the outer one first: that part cannot change below the inner one.
    """
    sums = tuple(split == PARTIAL for split in placement)
    return without_axis(held, axis), sums[:axis], sums[axis + 1 :]


def _kind(split: int) -> int:
    """Return REPLICATE, PARTIAL or _SPLIT."""
    return min(split, _SPLIT)


def _single_steps(tensor: WholeTensor, placement: Placement, mesh: Mesh, axis: int) -> dict[tuple[int, int], Step]:
    """Return the steps on one axis by what it does before and after; the others stay as in `placement`."""
    unsplit = (*placement[:axis], REPLICATE, *placement[axis + 1 :])
    size = local_bytes(tensor, unsplit, mesh.shape)

    def step(collective: Collective) -> Step:
        return Step(collective=collective, axis=axis, time_ns=collective_ns(mesh.axes[axis], collective, size))

    kept = Step(collective=None, axis=axis, time_ns=0)  # each device keeps its part; as a partial sum, its share
    return {
        (REPLICATE, _SPLIT): kept,
        (REPLICATE, PARTIAL): kept,
        (PARTIAL, REPLICATE): step(Collective.ALL_REDUCE),
        (PARTIAL, _SPLIT): step(Collective.REDUCE_SCATTER),
        (_SPLIT, REPLICATE): step(Collective.ALL_GATHER),
        (_SPLIT, _SPLIT): step(Collective.ALL_TO_ALL),
    }
