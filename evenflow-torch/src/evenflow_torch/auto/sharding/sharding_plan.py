"""The result of an operator sharding: placements, collectives, costs and memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from evenflow.cluster import AttentionOnMesh, Collective, Placement, describe
from evenflow.language import _
from evenflow.solve import Status

_LAYERS = re.compile(r"(?<![^.])([0-9]+)-([0-9]+)(?![^.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSharding:
    """The placement of one parameter, or of the same one in equal layers."""

    name: str
    """Name of the parameter; equal layers are in one: ``model.layers.0-31.self_attn.q_proj.weight``."""
    shape: tuple[int, ...]
    dimensions: tuple[str, ...]
    """Names for a split of each dimension: ``column`` splits a layer's outputs, ``row`` its inputs."""
    kept: Placement
    used: Placement
    """Placement while its layer computes: whole along the axes over which it is gathered for that."""
    gradient: Placement
    """Placement as the gradient is summed over the microbatches."""
    update: Placement
    """Placement of the optimizer state."""

    def names(self) -> Iterator[str]:
        """Yield the parameter's name in each layer.

        >>> both = ParameterSharding(name="h.0-1.w", shape=(), dimensions=(), kept=(), used=(), gradient=(), update=())
        >>> list(both.names())
        ['h.0.w', 'h.1.w']
        """
        layers = _LAYERS.search(self.name)
        if layers is None:
            yield self.name
            return
        for layer in range(int(layers[1]), int(layers[2]) + 1):
            yield f"{self.name[: layers.start()]}{layer}{self.name[layers.end() :]}"

    def text(self) -> str:
        """Return text such as ``q_proj.weight column on mesh axis 1``, and where optimizer state lies elsewhere."""
        return f"{self.name} {self.placement_text()}"

    def placement_text(self, axes: tuple[str, ...] = ()) -> str:
        """Return the placement as text; `axes` says where the devices of each mesh axis lie."""
        kept = describe(self.kept, dimensions=self.dimensions, axes=axes)
        if self.update == self.kept:
            return kept
        update = describe(self.update, dimensions=self.dimensions, axes=axes)
        return _("{placement}; optimizer state {update}", placement=kept, update=update)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationSharding:
    """The placement of a forward operator's result as it is made."""

    name: str
    """The layer whose parameter it uses, or the operator."""
    shape: tuple[int, ...]
    placement: Placement
    reads: Placement | None = None
    """Placement of the other factor in a product with a parameter, or of what experts read."""
    experts: Placement | None = None
    """Placement of the matrices of experts where they are used: dimension 0 are experts, 1 is their width."""
    module: str = ""
    """Path of the module that calls the operator."""
    attention: AttentionOnMesh | None = None
    """How devices share it, where it is fused attention."""

    def text(self) -> str:
        """Return the result's name and placement as text."""
        return f"{self.name} {list(self.shape)} {describe(self.placement)}"


class CostPart(StrEnum):
    """What time is spent on; the value is the word in result files. Collectives are one of the middle three."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    """Sums of what devices have in part."""
    RESHARDING = "resharding"
    """Moves from one placement to another."""
    GRADIENT = "gradient"
    """Sums of gradients, and parameters after their update."""
    OPTIMIZER = "optimizer"


class Phase(StrEnum):
    """The part of a step in which a collective runs; the value is the word in result files."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
    """Once a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCollective:
    """A collective that the plan asks for."""

    before: str
    """The operator that reads the result."""
    collective: Collective
    axis: int
    shape: tuple[int, ...]
    """Shape of the whole tensor."""
    times: int
    """Number of runs in one step."""
    time_ns: int
    """Nanoseconds of one run."""
    part: CostPart
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The memory of one device, by use; activations are those of all microbatches in flight."""

    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        """The sum of all parts."""
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes + self.activation_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParts:
    """Nanoseconds of one step, by what is done and by when.

    What runs under computation is `hidden_ns`, and in nothing else; that it makes computation longer counts as exposed
    communication.
    """

    compute_ns: int
    communication_ns: int
    resharding_ns: int
    gradient_ns: int
    optimizer_ns: int = 0
    """These five, the last of which this is, split the step by what is done; see `CostPart`."""
    forward_ns: int
    backward_ns: int
    update_ns: int
    """These three split it by when: forward and backward of all microbatches, and what is done once."""
    hidden_ns: int = 0
    """Communication under the forwards and backwards of all microbatches."""
    hidden_update_ns: int = 0
    """What is exchanged once a step, under the first forward or the last backward."""

    @property
    def total_ns(self) -> int:
        """The whole step."""
        return self.forward_ns + self.backward_ns + self.update_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingPlan:
    """The result of `evenflow.auto.shard`."""

    status: Status
    """Whether the sharding is proven to be the fastest within the limit, or why there is none."""
    mesh_shape: tuple[int, ...]
    memory_limit_bytes: int | None = None
    lower_bound_ns: int
    """No sharding within the limit has a shorter step."""
    parameters: tuple[ParameterSharding, ...] = ()
    activations: tuple[ActivationSharding, ...] = ()
    collectives: tuple[PlannedCollective, ...] = ()
    cost: CostParts | None = None
    """The cost of one step; None without a plan, like `memory`."""
    memory: DeviceMemory | None = None
    smallest_memory_bytes: int | None = None
    """The least memory of any sharding, where none fits the limit."""
    replicated_operators: tuple[str, ...] = ()
    """Operators without sharding rules: every device runs them whole."""
    solve_seconds: float = 0.0

    @property
    def gap(self) -> float | None:
        """The largest share of the step that another sharding could save."""
        if self.cost is None:
            return None
        return 1 - self.lower_bound_ns / self.cost.total_ns if self.cost.total_ns else 0.0
