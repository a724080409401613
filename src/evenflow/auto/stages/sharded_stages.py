"""Stage costs from operator shardings: a `StageProvider` over the logical meshes of every submesh.

For each submesh, logical mesh and price of memory there is a network with what one device has of every layer: the
slopes of `layer_costs`, so a stage is a sum of layers, and the same numbers go to the stages' dynamic program, to the
exact solver and into layer files. What happens once a step is shared out over the microbatches. Recomputing a layer
(`full`) keeps what enters it and runs its forward, collectives included, once more.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from evenflow.auto.sharding.layer_costs import MeshCosts, StageOption, costs_on
from evenflow.auto.sharding.memory_levels import LEVELS
from evenflow.auto.sharding.program import Training
from evenflow.auto.stages.candidates import StageCost, run_costs
from evenflow.auto.trace.captured_layers import CapturedLayers
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.cluster import Cluster, Submesh, submeshes
from evenflow.cluster.layout import Layout
from evenflow.cluster.logical_mesh import logical_meshes
from evenflow.cluster.placement import local_bytes
from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.simulate.costs import LayerSums, layer_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """One sharding of all layers on one logical mesh."""

    costs: MeshCosts
    level: int
    """Price of memory, from the fastest sharding to the smallest."""

    @property
    def words(self) -> str:
        """Such as ``2x4 fastest``."""
        shape = "x".join(map(str, self.costs.mesh.shape))
        return f"{shape} {LEVELS[self.level]}"


@dataclass(frozen=True, kw_only=True)
class ShardedStages:
    """The provider. Its layers are those of the body; head and tail go with the first and the last."""

    name: str
    cluster: Cluster
    num_microbatches: int
    costs: Mapping[Submesh, tuple[MeshCosts, ...]]
    """By submesh, one for each logical mesh; other submeshes are not used."""
    has_head: bool
    has_tail: bool
    _networks: dict[tuple[Submesh, str], tuple[Network, LayerSums]] = field(default_factory=dict, repr=False)

    @property
    def order(self) -> tuple[int, ...]:
        """The kind of every layer, ends included."""
        return next(iter(self.costs.values()))[0].order

    @property
    def body(self) -> range:
        """Where the layers of the body are among all."""
        return range(int(self.has_head), len(self.order) - int(self.has_tail))

    @cached_property
    def kinds(self) -> Sequence[Hashable]:
        """A layer's kind, what precedes it, and whether it has an end of the model beside it."""
        last = self.body[-1]
        return tuple(
            (
                self.order[at],
                self.order[max(0, at - 1)],
                at == self.body[0] and self.has_head,
                at == last and self.has_tail,
            )
            for at in self.body
        )

    def shardings(self, submesh: Submesh) -> dict[str, Sharding]:
        """By their words."""
        found = [
            Sharding(costs=costs, level=level)
            for costs in self.costs.get(submesh, ())
            for level in range(len(costs.layers[0]))
        ]
        return {one.words: one for one in found}

    def options(self, first: int, end: int, submesh: Submesh) -> Sequence[StageCost]:
        """One for every logical mesh, price of memory and recompute kind."""
        return [
            cost
            for words in self.shardings(submesh)
            for cost in run_costs(*self._network(submesh, words), first, end, words)
        ]

    def entry_ns(self, first: int, submesh: Submesh) -> int:
        """Every device receives its part from a device of its own, and returns the gradient likewise."""
        near = submesh.num_devices < self.cluster.devices_per_node
        link = self.cluster.intra if near else self.cluster.inter
        some = next(iter(self.costs.values()))[0]
        tensor = some.handed_over[self.order[self.body[first]]]
        return 2 * link.transfer_ns(tensor.size_bytes // submesh.num_devices)

    def network_on(self, submesh: Submesh, sharding: str) -> Network:
        """The network with what each device of a submesh has of it."""
        return self._network(submesh, sharding)[0]

    def boundary(
        self, first: int, submesh: Submesh, sharding: str, devices: Sequence[int], *, leaving: bool = False
    ) -> Layout:
        """As the sharding of the layer before gives it, or as that of the layer itself takes it.

        Before the first layer comes what the model takes.
        """
        one = self.shardings(submesh)[sharding]
        layer = self.body[first] if first else 0
        tensor, placement = one.costs.exit(layer - 1, one.level) if leaving else one.costs.entry(layer, one.level)
        return Layout(
            shape=tensor.shape,
            item_bytes=tensor.item_bytes,
            mesh=one.costs.mesh.shape,
            placement=placement,
            devices=tuple(devices),
        )

    def stage_option(self, first: int, end: int, submesh: Submesh, sharding: str) -> StageOption:
        """The parts of a stage's time, ends of the model included."""
        one = self.shardings(submesh)[sharding]
        body = self.body
        begin = 0 if first == 0 else body[first]
        last = len(self.order) if end == len(body) else body[end - 1] + 1
        return one.costs.options(begin, last)[one.level]

    def _network(self, submesh: Submesh, words: str) -> tuple[Network, LayerSums]:
        key = submesh, words
        if key not in self._networks:
            network = self._made(self.shardings(submesh)[words])
            self._networks[key] = network, layer_sums(network)
        return self._networks[key]

    def _made(self, sharding: Sharding) -> Network:
        body = self.body
        layers = [self._layer(sharding, at) for at in body]
        return Network(
            name=self.name,
            runs=in_runs(layers),
            head=self._end(sharding, 0, body[0]) if self.has_head else EndBlock(),
            tail=self._end(sharding, len(self.order) - 1, len(self.order) - 1) if self.has_tail else EndBlock(),
            constant_bytes=max(layer.modes[NONE].activation_bytes for layer in layers),
        )

    def _layer(self, sharding: Sharding, at: int) -> Layer:
        """One layer, with the move where a kind begins inside of the body; working memory is that of a layer."""
        costs, level = sharding.costs, sharding.level
        kind = self.order[at]
        found = costs.layers[kind][level]
        one, base = found.slope, found.base
        forward, backward = one.forward_ns, one.backward_ns + self._share(one.update_ns)
        if at > self.body[0] and self.order[at - 1] != kind:
            more, back = costs.between(at, level)
            forward, backward = forward + more, backward + back
        tensor, placement = costs.entry(at, level)
        activation = one.activation_bytes + max(0, base.activation_bytes)
        kept = min(activation, local_bytes(tensor, placement, costs.mesh.shape))
        return Layer(
            name=f"kind {kind}",
            forward_ns=forward,
            parameter_bytes=one.static_bytes + max(0, base.static_bytes),
            modes={
                NONE: Mode(activation_bytes=activation, backward_ns=backward),
                FULL: Mode(activation_bytes=kept, backward_ns=forward + backward),
            },
        )

    def _end(self, sharding: Sharding, at: int, joint: int) -> EndBlock:
        """Head or tail, with the move between it and the body at layer `joint`."""
        one = sharding.costs.layers[self.order[at]][sharding.level].slope
        forward, backward = sharding.costs.between(joint, sharding.level)
        return EndBlock(
            name=f"kind {self.order[at]}",
            forward_ns=one.forward_ns + forward,
            backward_ns=one.backward_ns + self._share(one.update_ns) + backward,
            parameter_bytes=one.static_bytes,
            activation_bytes=one.activation_bytes,
        )

    def _share(self, update_ns: int) -> int:
        return -(-update_ns // self.num_microbatches)


def in_runs(layers: Sequence[Layer]) -> tuple[LayerRun, ...]:
    """Equal layers in a row together."""
    return tuple(LayerRun(layer=layer, count=len(list(group))) for layer, group in groupby(layers))


def sharded_stages(
    layers: CapturedLayers,
    cluster: Cluster,
    *,
    name: str,
    has_head: bool,
    has_tail: bool,
    num_microbatches: int,
    accelerator: Accelerator | None,
    optimizer_bytes_per_parameter: int,
    time_limit_s: float = 60.0,
    processes: int = 1,
    progress: Callable[[str], None] = lambda _words: None,
) -> ShardedStages:
    """Solve every kind of layer on the submeshes of `cluster`: of whole nodes those whose number divides all nodes.

    Memory weighs as if the stage held the most microbatches that a pipeline of such stages has in flight.
    """
    shapes = [shape for shape in submeshes(cluster) if cluster.num_nodes % shape.num_nodes == 0]
    asked = [
        (
            shape,
            mesh,
            Training(
                num_microbatches=num_microbatches,
                microbatches_in_flight=min(num_microbatches, cluster.num_devices // shape.num_devices),
                optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
            ),
        )
        for shape in shapes
        for mesh in logical_meshes(cluster, shape, accelerator)
    ]
    found: dict[Submesh, tuple[MeshCosts, ...]] = {}
    solved = costs_on(
        layers, [(mesh, training) for _, mesh, training in asked], time_limit_s=time_limit_s, processes=processes
    )
    for count, ((shape, _, _), costs) in enumerate(zip(asked, solved, strict=True), 1):
        found[shape] = (*found.get(shape, ()), costs)
        progress(f"operators sharded on {count} of {len(asked)} meshes")
    return ShardedStages(
        name=name,
        cluster=cluster,
        num_microbatches=num_microbatches,
        costs=found,
        has_head=has_head,
        has_tail=has_tail,
    )
