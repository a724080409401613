"""Stage costs by formula, from a layer file's times on one device, under data x tensor parallelism.

A stage on n devices runs n / t data-parallel parts, each over t devices in Megatron's column-row split with sequence
parallelism. So of one microbatch's work every device has 1 / n, of its activations too, and of the parameters 1 / t.
Communication: each layer all-reduces its output twice in the forward and twice in the backward over t devices
[Megatron-LM, arXiv:1909.08053, §3; as reduce-scatters and all-gathers, arXiv:2205.05198, §4.2], and once a step the
gradients are all-reduced over the data-parallel parts, a share of which every microbatch carries. A layer that computes
its forward again runs its collectives again too.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evenflow.cluster import Cluster, Collective, Submesh, TensorLayout, collective_ns, mesh_axis
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.simulate import LayerSums, layer_sums
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.stage_provider import StageCost, exchange_ns, run_costs

_STATIC_PER_GRADIENT = 8
"""Mixed precision Adam keeps 16 bytes a parameter, 2 of them the gradient. [ZeRO, arXiv:1910.02054, §3.1]"""
_ALL_REDUCES = 2
"""All-reduces of a layer in each direction."""
_AGAIN = (FULL, COMM, BOTH)
"""The recompute kinds under which the collectives of the forward run once more in the backward."""


@dataclass(frozen=True, kw_only=True)
class AnalyticStages:
    """A `StageProvider` for a network whose times were measured or computed on one device."""

    network: Network
    cluster: Cluster
    num_microbatches: int
    samples: int
    """Samples of one microbatch: data-parallel parts divide it."""
    boundary_bytes: int
    """Bytes that a layer hands on for one microbatch."""

    def __post_init__(self) -> None:
        for name in ("num_microbatches", "samples", "boundary_bytes"):
            if getattr(self, name) < 1:
                raise InputError(
                    value=getattr(self, name),
                    rule=_("must be at least 1"),
                    place=f"{self.network.name}, {name}",
                )

    @cached_property
    def kinds(self) -> Sequence[Hashable]:
        """Layers by their costs; the first holds the head, the last the tail."""
        layers = [replace(layer, name="", modes={}) for layer in self.network.layers]
        modes = [tuple(sorted((kind, mode) for kind, mode in layer.modes.items())) for layer in self.network.layers]
        return tuple(str(kind) for kind in zip(layers, modes, self._ends, strict=True))

    @property
    def _ends(self) -> Sequence[Sequence[EndBlock]]:
        """The ends of the model that each layer holds besides itself, if they cost anything."""
        ends: list[list[EndBlock]] = [[] for _ in range(self.network.num_layers)]
        for place, block in ((0, self.network.head), (-1, self.network.tail)):
            if replace(block, name="") != EndBlock():
                ends[place].append(block)
        return ends

    def on(self, cluster: Cluster) -> "AnalyticStages":
        """Return the same network on another cluster."""
        return replace(self, cluster=cluster)

    def options(self, first: int, end: int, submesh: Submesh) -> Sequence[StageCost]:
        """Return an option for every split of the devices into data x tensor parallelism, and every recompute kind."""
        return [
            cost
            for sharding in self.shardings(submesh)
            for cost in run_costs(*self._network(submesh, sharding), first, end, sharding)
        ]

    def entry_ns(self, first: int, submesh: Submesh) -> int:
        """Return the time to receive what a layer hands on and to send its gradient."""
        return exchange_ns(self.cluster, submesh, self.boundary_bytes)

    def network_on(self, submesh: Submesh, sharding: MeshSharding) -> Network:
        """Return the network with the times and memory of one device of a submesh."""
        return self._network(submesh, sharding)[0]

    def boundary(
        self, first: int, submesh: Submesh, sharding: MeshSharding, devices: Sequence[int], *, leaving: bool = False
    ) -> TensorLayout:
        """Return a boundary's layout in bytes: data parallelism splits samples, tensor parallelism the sequence."""
        return TensorLayout(
            shape=(self.samples, max(1, self.boundary_bytes // self.samples)),
            item_bytes=1,
            mesh=sharding.mesh,
            placement=(0, 1),
            devices=tuple(devices),
        )

    def shardings(self, submesh: Submesh) -> tuple[MeshSharding, ...]:
        """Return data x tensor parallelism for every number of data-parallel parts that divides samples and devices."""
        devices = submesh.num_devices
        parts = [data for data in range(1, devices + 1) if devices % data == 0 and self.samples % data == 0]
        return tuple(MeshSharding((data, devices // data)) for data in parts)

    @cached_property
    def _networks(self) -> dict[tuple[Submesh, MeshSharding], tuple[Network, LayerSums]]:
        """Networks on submeshes, made when they are first asked for."""
        return {}

    def _network(self, submesh: Submesh, sharding: MeshSharding) -> tuple[Network, LayerSums]:
        key = submesh, sharding
        if key not in self._networks:
            network = _on_submesh(self, submesh, sharding)
            self._networks[key] = network, layer_sums(network)
        return self._networks[key]


def _on_submesh(stages: AnalyticStages, submesh: Submesh, sharding: MeshSharding) -> Network:
    """Return the network as every device of a submesh has it, with its collectives."""
    data, tensor = sharding.mesh
    devices, cluster = submesh.num_devices, stages.cluster
    # Tensor-parallel groups are neighbours; data-parallel ones reach across.
    is_inside = tensor <= submesh.devices_per_node
    tensor_nodes = 1 if is_inside else -(-tensor // submesh.devices_per_node)
    tensor_axis = mesh_axis(tensor, cluster.intra if is_inside else cluster.inter, domains=tensor_nodes)
    data_link = cluster.intra if submesh.num_nodes == 1 else cluster.inter
    data_axis = mesh_axis(data, data_link, domains=min(data, submesh.num_nodes))
    output_ns = _ALL_REDUCES * collective_ns(tensor_axis, Collective.ALL_REDUCE, stages.boundary_bytes // data)

    def gradient_ns(parameter_bytes: int) -> int:
        step_ns = collective_ns(data_axis, Collective.ALL_REDUCE, parameter_bytes // _STATIC_PER_GRADIENT // tensor)
        return -(-step_ns // stages.num_microbatches)

    def layer_on(layer: Layer) -> Layer:
        extra = output_ns + gradient_ns(layer.parameter_bytes)
        return replace(
            layer,
            forward_ns=-(-layer.forward_ns // devices) + output_ns,
            parameter_bytes=-(-layer.parameter_bytes // tensor),
            modes={
                kind: Mode(
                    activation_bytes=-(-mode.activation_bytes // devices),
                    working_bytes=-(-mode.working_bytes // devices),
                    backward_ns=-(-mode.backward_ns // devices) + extra + output_ns * (kind in _AGAIN),
                )
                for kind, mode in layer.modes.items()
            },
            stated_weight_ns=None if layer.stated_weight_ns is None else layer.stated_weight_ns // devices,
            stated_until_weight_bytes=_shared(layer.stated_until_weight_bytes, devices),
        )

    def block_on(block: EndBlock) -> EndBlock:
        return replace(
            block,
            forward_ns=-(-block.forward_ns // devices),
            backward_ns=-(-block.backward_ns // devices) + gradient_ns(block.parameter_bytes),
            parameter_bytes=-(-block.parameter_bytes // tensor),
            activation_bytes=-(-block.activation_bytes // devices),
            working_bytes=-(-block.working_bytes // devices),
            stated_weight_ns=None if block.stated_weight_ns is None else block.stated_weight_ns // devices,
            stated_until_weight_bytes=_shared(block.stated_until_weight_bytes, devices),
        )

    network = stages.network
    return replace(
        network,
        runs=tuple(LayerRun(layer=layer_on(run.layer), count=run.count) for run in network.runs),
        head=block_on(network.head),
        tail=block_on(network.tail),
    )


def _shared(size_bytes: int | None, devices: int) -> int | None:
    """Return each device's share of a size, or None if the size is unknown."""
    return None if size_bytes is None else -(-size_bytes // devices)
