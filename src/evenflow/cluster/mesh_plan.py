"""A two-level plan as it is run: the devices of every stage, and the layouts of tensors on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

from evenflow.cluster.cluster import Cluster
from evenflow.cluster.layout import TensorLayout
from evenflow.cluster.placement import Placement
from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The placements in which a layer that multiplies with its weight reads its input and gives its result.

    Placements are of matrices: dimension 0 are samples and positions together, dimension 1 features.
    """

    reads: Placement
    gives: Placement
    experts: Placement | None = None
    """Of a layer of experts, placement in which their matrices are used: dimension 0 are experts, 1 is their width."""


class RowExchange(StrEnum):
    """How attention gets keys and values where devices have other rows of the query; the value is a plan file's."""

    GATHERED = "gathered"
    """Every device gets all keys and values; of a causal mask the last device has the most to compute."""
    BALANCED = "balanced"
    """Likewise, but devices exchange half of their rows with their mirror image first, so that all have as much."""
    RING = "ring"
    """Keys and values go around while devices compute with those they have; causal rows are balanced as above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOnMesh:
    """How the devices of a stage share an attention."""

    placement: Placement
    """Of queries [batch, heads, length, width] and of the result."""
    rows: RowExchange
    """Where the length is split; otherwise gathered."""
    backward_rows: RowExchange


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOnMesh:
    """One stage of the pipeline."""

    rank: int
    """Rank of the pipeline: the place of its submesh, the same for the chunks of a rank."""
    input: TensorLayout
    """Layout of the stage's input on its devices: a microbatch of all of them together."""
    output: TensorLayout | None
    """Layout of what goes to the next stage; None for the last, whose result goes into the loss."""
    parameters: Mapping[str, Placement]
    """Placements of parameters, by name in the whole model."""
    updates: Mapping[str, Placement] = field(default_factory=dict)
    """Placements of the optimizer's state, where they differ from the parameter's."""
    gradients: Mapping[str, Placement] = field(default_factory=dict)
    """Placements in which gradients are summed over the microbatches; not named: as they come, in partial sums."""
    gathered: Mapping[str, Placement] = field(default_factory=dict)
    """Placements of parameters while their layer computes, where they are gathered for it."""
    entries: Mapping[str, Placement] = field(default_factory=dict)
    """Placement of what comes into each layer, by the name of its first module in the whole model."""
    products: Mapping[str, Product] = field(default_factory=dict)
    """Products with a weight, by the module's name in the whole model."""
    attention: Mapping[str, AttentionOnMesh] = field(default_factory=dict)
    """Fused attention, by the name in the whole model of the module that calls it; not named: as the query lies."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices in the order of the mesh, the last axis varying fastest."""
        return self.input.devices

    @property
    def mesh(self) -> tuple[int, ...]:
        """Devices along each axis."""
        return self.input.mesh

    def token_groups(self) -> dict[str, int]:
        """Return the parts of a microbatch's tokens that are routed apart, by the name of a layer of experts."""
        return {
            name: prod(size for size, dimension in zip(self.mesh, product.reads, strict=True) if dimension == 0)
            for name, product in self.products.items()
            if product.experts is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPlan:
    """All stages, in the order of the model. Device d is the process of rank d."""

    cluster: Cluster
    stages: tuple[StageOnMesh, ...]
    expert_capacity: float | None = None
    """Room of an expert in shares of an equal load of the tokens that a device routes; None: as many as come."""

    def __post_init__(self) -> None:
        devices = self.devices_of_rank()
        everything = sorted(device for stage_devices in devices for device in stage_devices)
        if everything != list(range(self.cluster.num_devices)):
            raise InputError(
                value=everything,
                rule=_(
                    "must be each of the {num_devices} devices once, in one rank of the pipeline",
                    num_devices=self.cluster.num_devices,
                ),
                place=_("the devices of the stages"),
            )
        without = [rank for rank, own in enumerate(devices) if not own]
        if without:
            raise InputError(
                value=without,
                rule=_("must each have a stage"),
                place=_("the ranks up to {rank}", rank=len(devices) - 1),
            )

    @property
    def num_ranks(self) -> int:
        """Number of ranks of the pipeline."""
        return max(stage.rank for stage in self.stages) + 1

    def devices_of_rank(self) -> Sequence[Sequence[int]]:
        """The devices of every rank of the pipeline; chunks of a rank are on the same ones."""
        of_rank: dict[int, set[int]] = {rank: set() for rank in range(self.num_ranks)}
        for stage in self.stages:
            of_rank[stage.rank] |= set(stage.devices)
        return [sorted(of_rank[rank]) for rank in range(self.num_ranks)]

    def rank_of(self, device: int) -> int:
        """The rank of the pipeline that a device belongs to."""
        return next(stage.rank for stage in self.stages if device in stage.devices)
