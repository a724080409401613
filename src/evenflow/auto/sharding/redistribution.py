"""The cost of bringing a tensor from one placement to another, by the cheapest sequence of collectives."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenflow.auto.sharding.pairwise import Costs
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
from evenflow.cluster.splits.split_digits import without_axis


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


@dataclass(kw_only=True)
class RedistributionTable:
    """Redistributions on one mesh, worked out once for each shape of tensor."""

    mesh: Mesh
    _tables: dict[WholeTensor, Redistribution] = field(default_factory=dict)

    def of(self, tensor: WholeTensor) -> Redistribution:
        """Return the moves between all pairs of placements of `tensor`, partial sums among them."""
        if tensor not in self._tables:
            self._tables[tensor] = _all_pairs(tensor, self.mesh)
        return self._tables[tensor]


def _all_pairs(tensor: WholeTensor, mesh: Mesh) -> Redistribution:
    """Find the cheapest ways between placements, by Floyd and Warshall; a step changes one mesh axis."""
    states = tuple(placements(tensor, mesh.shape, partial=True))
    index = {state: i for i, state in enumerate(states)}
    costs = np.full((len(states), len(states)), np.inf)
    np.fill_diagonal(costs, 0)
    next_hop = np.tile(np.arange(len(states)), (len(states), 1))
    steps = {}
    for axis in range(len(mesh.shape)):
        alike: dict[object, list[int]] = defaultdict(list)
        for i, state in enumerate(states):
            alike[_beside(tensor, state, mesh, axis)].append(i)
        for those in alike.values():
            for i, j in itertools.permutations(those, 2):
                step = _single_step(tensor, states[i], states[j], mesh, axis)
                if step is not None:
                    steps[i, j] = step
                    costs[i, j] = step.time_ns
    for k in range(len(states)):
        through = costs[:, k : k + 1] + costs[k : k + 1, :]
        better = through < costs
        costs[better] = through[better]
        next_hop = np.where(better, next_hop[:, k : k + 1], next_hop)
    return Redistribution(placements=states, index=index, costs=costs, steps=steps, next_hop=next_hop)


def _beside(tensor: WholeTensor, placement: Placement, mesh: Mesh, axis: int) -> object:
    """Return what the other axes do. It must be the same before and after a collective on this axis.

    A dimension split by two axes is split by the outer one first: that part cannot change below the inner one.
    """
    found = digits(tensor.shape, placement, mesh.shape)
    assert found is not None
    sums = tuple(where == PARTIAL for where in placement)
    return without_axis(found, axis), sums[:axis], sums[axis + 1 :]


def _single_step(tensor: WholeTensor, source: Placement, target: Placement, mesh: Mesh, axis: int) -> Step | None:
    before, after = source[axis], target[axis]
    if before == after:  # a dimension split otherwise, as a whole
        return None
    if before == REPLICATE:  # each device keeps its part; as a partial sum, its share of the value
        return Step(collective=None, axis=axis, time_ns=0)
    if after == PARTIAL:
        return None
    unsplit = (*source[:axis], REPLICATE, *source[axis + 1 :])
    collective = _collective(before, after)
    time_ns = collective_ns(mesh.axes[axis], collective, local_bytes(tensor, unsplit, mesh.shape))
    return Step(collective=collective, axis=axis, time_ns=time_ns)


def _collective(before: int, after: int) -> Collective:
    """The collective that makes of a sum or a split dimension what is wanted after it."""
    if before == PARTIAL:
        return Collective.ALL_REDUCE if after == REPLICATE else Collective.REDUCE_SCATTER
    return Collective.ALL_GATHER if after == REPLICATE else Collective.ALL_TO_ALL
