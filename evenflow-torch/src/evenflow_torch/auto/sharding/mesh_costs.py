"""Costs of runs of layers on one mesh, as values: a run of several kinds is the sum of its parts.

A run of k equal layers costs ``base + k * slope`` in everything, because its layers share one choice (`OperatorGraph`);
to a run of several kinds the redistributions between them are added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby

from evenflow.cluster import Mesh, Placement, WholeTensor
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.auto.sharding.recomputation import RecomputedCost
from evenflow_torch.auto.sharding.redistribution import RedistributionTable
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.sharding.ways import PlainWay, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOption:
    """One way to run a stage; times of one microbatch, memory of one device."""

    forward_ns: int
    backward_ns: int
    update_ns: int
    """Nanoseconds per step: gradients synchronised, parameters updated and handed out."""
    compute_ns: int
    communication_ns: int
    resharding_ns: int
    gradient_ns: int
    optimizer_ns: int
    """These five are the same time by what is done, as in `CostParts`: the first three of a microbatch, the others of a
    step."""
    hidden_ns: int
    """Communication of a microbatch that runs under its computation, and is in none of the other times."""
    hidden_update_ns: int
    """Communication once a step that runs under computation, and is in none of the other times."""
    static_bytes: int
    """Parameters, gradients and optimizer state."""
    activation_bytes: int
    """Bytes for each microbatch in flight."""
    way: Way
    """How the sharding was chosen."""


NUMBERS = tuple(number.name for number in fields(StageOption) if number.name != "way")
"""The times and bytes of a `StageOption`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """One sharding of one kind of layer: numbers of a run of k layers are ``base + k * slope``."""

    base: StageOption
    slope: StageOption
    entry: Placement
    """Placement of the tensor that comes in."""
    exit: Placement
    """Placement of the tensor that goes out."""
    gradient_entry: Placement | None
    """Placement of the gradient of what goes out, which comes in; None where there is none."""
    gradient_exit: Placement | None
    """Placement of the gradient of what came in."""
    plan: ShardingPlan
    """The sharding of a stage of these layers alone, as many as the longest run has."""
    gathered_bytes: int = 0
    """Bytes of one layer's parameters on a device while they are gathered for it, beside those it keeps."""
    entry_shape: tuple[int, ...] = ()
    """Shape of the tensor that comes in: samples, then tokens or features."""
    recomputed: Mapping[str, RecomputedCost] = field(default_factory=dict)
    """What one layer costs where a part of its modules recompute, by recompute kind."""


@dataclass(frozen=True, kw_only=True)
class MeshCosts:
    """Costs of all stages on one mesh."""

    mesh: Mesh
    order: tuple[int, ...]
    """The kind of every layer."""
    layers: tuple[Mapping[Way, LayerCost], ...]
    """Costs of each kind, by the way it is sharded; all kinds have the same ways."""
    handed_over: tuple[WholeTensor, ...]
    """The tensor that comes into a layer of each kind."""
    missing: Mapping[PlainWay, str] = field(default_factory=dict)
    """Why plain plans are not there on this mesh: what does not divide, or that the time was over."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways that every kind of layer was sharded, prices of memory first, from the fastest to the smallest."""
        return tuple(self.layers[0])

    def only(self, ways: Sequence[Way]) -> "MeshCosts":
        """Return the costs with these ways alone."""
        return replace(self, layers=tuple({way: kind[way] for way in ways} for kind in self.layers))

    @cached_property
    def _redistributions(self) -> RedistributionTable:
        return RedistributionTable(mesh=self.mesh)

    def options(self, first: int, end: int) -> dict[Way, StageOption]:
        """Return the ways to run layers [first, end) as one stage.

        Raises InputError for an empty run.
        """
        if not 0 <= first < end <= len(self.order):
            raise InputError(
                value=f"[{first}, {end})",
                rule=_("must be a run of some of the layers [0, {count})", count=len(self.order)),
                place="stage",
            )
        return {way: self._option(first, end, way) for way in self.ways}

    def entry(self, layer: int, way: Way) -> tuple[WholeTensor, Placement]:
        """Return the tensor that enters a layer, and its placement on the mesh."""
        kind = self.order[layer]
        return self.handed_over[kind], self.layers[kind][way].entry

    def exit(self, layer: int, way: Way) -> tuple[WholeTensor, Placement]:
        """Return the tensor that a layer hands to the next one, and its placement as the layer leaves it."""
        return self.handed_over[self.order[layer + 1]], self.layers[self.order[layer]][way].exit

    def between(self, start: int, way: Way) -> tuple[int, int]:
        """Return forward and backward time of a microbatch's redistribution where layer `start` begins another kind."""
        before, after = (self.layers[self.order[layer]][way] for layer in (start - 1, start))
        moves = self._redistributions.of(self.handed_over[self.order[start]])

        def cost(source: Placement | None, target: Placement | None) -> int:
            if source is None or target is None:
                return 0
            return int(moves.costs[moves.index[source], moves.index[target]])

        return cost(before.exit, after.entry), cost(after.gradient_exit, before.gradient_entry)

    def _option(self, first: int, end: int, way: Way) -> StageOption:
        runs = [(self.layers[kind][way], len(list(run))) for kind, run in groupby(self.order[first:end])]
        numbers = {
            name: sum(getattr(cost.base, name) + count * getattr(cost.slope, name) for cost, count in runs)
            for name in NUMBERS
        }
        for start in range(first + 1, end):
            if self.order[start - 1] != self.order[start]:
                forward, backward = self.between(start, way)
                numbers["forward_ns"] += forward
                numbers["backward_ns"] += backward
                numbers["resharding_ns"] += forward + backward
        return StageOption(**numbers, way=way)
