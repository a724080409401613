"""Stage costs from operator shardings: a `StageProvider` over the logical meshes of every submesh.

For each submesh, logical mesh and way there is a network with what one device has of every layer: the
slopes of `layer_costs`, so a stage is a sum of layers, and the same numbers go to the stages' dynamic program, to the
exact solver and into layer files. What happens once a step is shared out over the microbatches. Recomputing a layer
(`full`) keeps what enters it and runs its forward, collectives included, once more; other recompute kinds do so with
some of its modules.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from math import prod

import numpy as np

from evenflow.cluster import Cluster, Submesh, TensorLayout, local_bytes
from evenflow.model import FULL, NONE, OFFLOAD, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.simulate import LayerSums, layer_sums
from evenflow_torch.auto.sharding.least_work import LeastWork
from evenflow_torch.auto.sharding.mesh_costs import LayerCost, MeshCosts, StageOption
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.sharding.ways import Level, MeshSharding, PlainWay, Way
from evenflow_torch.auto.stages.stage_provider import StageCost, exchange_ns, run_costs
from evenflow_torch.auto.stages.working_memory import WorkingMemory


@dataclass(frozen=True, kw_only=True)
class ShardedStages:
    """The stage costs of a sharded model; head and tail go with the body's first and last layer."""

    name: str
    cluster: Cluster
    num_microbatches: int
    costs: Mapping[Submesh, Mapping[tuple[int, ...], MeshCosts]]
    """Costs by submesh, then by the shape of the logical mesh; other submeshes are not used."""
    work: LeastWork | None = None
    """The least work of a microbatch, which counts as one sample; None where it is not known."""
    left_out: tuple[str, ...] = ()
    """Meshes that there was no time for, in words."""
    has_head: bool
    has_tail: bool
    working: tuple[WorkingMemory, ...] = ()
    """Working memory of layers, by kind; empty: not known, and then taken as what the largest layer keeps."""
    _networks: dict[tuple[Submesh, MeshSharding], tuple[Network, LayerSums]] = field(default_factory=dict, repr=False)
    _best: dict[Submesh, tuple[MeshSharding, ...]] = field(default_factory=dict, init=False, repr=False)

    def on(self, cluster: Cluster) -> "ShardedStages":
        """Return the same costs on a cluster of another size, whose new submeshes are not used."""
        return replace(self, cluster=cluster)

    def without(self, submesh: Submesh, sharding: MeshSharding) -> "ShardedStages":
        """Return the same costs without one sharding of a submesh."""
        left = {shape: costs for shape, costs in self.costs[submesh].items() if shape != sharding.mesh}
        costs = self.costs[submesh][sharding.mesh]
        if len(costs.ways) > 1:
            left[sharding.mesh] = costs.only([way for way in costs.ways if way != sharding.way])
        others = {other: meshes for other, meshes in self.costs.items() if other != submesh}
        return replace(self, costs={**others, submesh: left} if left else others)

    @cached_property
    def _some(self) -> MeshCosts:
        """The costs on some mesh, for what all meshes have in common."""
        return next(iter(next(iter(self.costs.values())).values()))

    @property
    def order(self) -> tuple[int, ...]:
        """The kind of every layer, ends included."""
        return self._some.order

    @property
    def body(self) -> range:
        """The places of the body's layers among all."""
        return range(int(self.has_head), len(self.order) - int(self.has_tail))

    @cached_property
    def kinds(self) -> Sequence[Hashable]:
        """For each layer its kind, the kind before it, and whether head or tail go with it."""
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

    def shardings(self, submesh: Submesh) -> tuple[MeshSharding, ...]:
        """Return every sharding that was solved on a submesh: on each logical mesh, each way."""
        meshes = self.costs.get(submesh, {})
        return tuple(MeshSharding(mesh, way) for mesh, costs in meshes.items() for way in costs.ways)

    def plain(self, submesh: Submesh) -> Iterator[tuple[MeshSharding, str]]:
        """Yield the plain plans of a submesh, each with "" or the reason why it does not exist."""
        for mesh, costs in self.costs.get(submesh, {}).items():
            yield from ((MeshSharding(mesh, way), "") for way in costs.ways if isinstance(way, PlainWay))
            yield from ((MeshSharding(mesh, way), reason) for way, reason in costs.missing.items())

    def stage_costs(self, first: int, end: int, submesh: Submesh, sharding: MeshSharding) -> list[StageCost]:
        """Return the costs of layers [first, end) of the body under one sharding, for every recompute kind."""
        return run_costs(*self._network(submesh, sharding), first, end, sharding)

    def layer_cost(self, submesh: Submesh, sharding: MeshSharding, kind: int) -> LayerCost:
        """Return the cost of one kind of layer, and how its operators are sharded."""
        assert sharding.way is not None
        return self.costs[submesh][sharding.mesh].layers[kind][sharding.way]

    @property
    def recompute_kinds(self) -> tuple[str, ...]:
        """The recompute kinds that all layers have."""
        submesh, meshes = next(iter(self.costs.items()))
        shape, costs = next(iter(meshes.items()))
        return tuple(cost.recompute for cost in self.stage_costs(0, 1, submesh, MeshSharding(shape, costs.ways[0])))

    def solved_programs(self) -> Iterator[ShardingPlan]:
        """Yield the plans of all programs solved without restriction, by mesh, kind of layer and price of memory."""
        for meshes in self.costs.values():
            for costs in meshes.values():
                for ways in costs.layers:
                    yield from (cost.plan for way, cost in ways.items() if isinstance(way, Level))

    def options(self, first: int, end: int, submesh: Submesh) -> Sequence[StageCost]:
        """Return an option for every useful sharding of a submesh and every recompute kind."""
        return [cost for sharding in self._useful(submesh) for cost in self.stage_costs(first, end, submesh, sharding)]

    def _useful(self, submesh: Submesh) -> tuple[MeshSharding, ...]:
        """Return the shardings that no other equals or beats in every cost of every layer."""
        if submesh not in self._best:
            every = self.shardings(submesh)
            if not every:
                return ()
            places = list({kind: at for at, kind in reversed(list(enumerate(self.kinds)))}.values())
            rows = np.array([_numbers(self.network_on(submesh, sharding), places) for sharding in every])
            kept: list[int] = []
            for at in np.lexsort((np.arange(len(every)), rows.sum(axis=1))):
                if not (rows[kept] <= rows[at]).all(axis=1).any():
                    kept.append(int(at))
            self._best[submesh] = tuple(every[at] for at in sorted(kept))
        return self._best[submesh]

    def entry_ns(self, first: int, submesh: Submesh) -> int:
        """Return the time to receive what the layer before hands on and to send its gradient."""
        tensor = self._some.handed_over[self.order[self.body[first]]]
        return exchange_ns(self.cluster, submesh, tensor.size_bytes)

    def network_on(self, submesh: Submesh, sharding: MeshSharding) -> Network:
        """Return the network with the times and memory of one device of a submesh."""
        return self._network(submesh, sharding)[0]

    def boundary(
        self, first: int, submesh: Submesh, sharding: MeshSharding, devices: Sequence[int], *, leaving: bool = False
    ) -> TensorLayout:
        """Return the layout of a boundary: as the layer before leaves it, or as the layer itself takes it.

        Before the first layer comes what the model takes.
        """
        costs, way = self._of(submesh, sharding)
        layer = self.body[first] if first else 0
        tensor, placement = costs.exit(layer - 1, way) if leaving else costs.entry(layer, way)
        return TensorLayout(
            shape=tensor.shape,
            item_bytes=tensor.item_bytes,
            mesh=costs.mesh.shape,
            placement=placement,
            devices=tuple(devices),
        )

    def with_ends(self, first: int, end: int) -> range:
        """Return the indices among all layers of the body's layers [first, end) and of the ends beside them."""
        body = self.body
        begin = 0 if first == 0 else body[first]
        return range(begin, len(self.order) if end == len(body) else body[end - 1] + 1)

    def stage_option(self, first: int, end: int, submesh: Submesh, sharding: MeshSharding) -> StageOption:
        """Return the parts of a stage's time and memory, ends of the model included."""
        costs, way = self._of(submesh, sharding)
        layers = self.with_ends(first, end)
        return costs.options(layers.start, layers.stop)[way]

    def _of(self, submesh: Submesh, sharding: MeshSharding) -> tuple[MeshCosts, Way]:
        assert sharding.way is not None
        return self.costs[submesh][sharding.mesh], sharding.way

    def _network(self, submesh: Submesh, sharding: MeshSharding) -> tuple[Network, LayerSums]:
        key = submesh, sharding
        if key not in self._networks:
            network = self._made(*self._of(submesh, sharding))
            self._networks[key] = network, layer_sums(network)
        return self._networks[key]

    def _made(self, costs: MeshCosts, way: Way) -> Network:
        body, last = self.body, len(self.order) - 1
        layers = [self._layer(costs, way, at) for at in body]
        return Network(
            name=self.name,
            runs=in_runs(layers),
            head=self._end(costs, way, 0, body[0]) if self.has_head else EndBlock(),
            tail=self._end(costs, way, last, last) if self.has_tail else EndBlock(),
            constant_bytes=0 if self.working else max(layer.modes[NONE].activation_bytes for layer in layers),
        )

    def _layer(self, costs: MeshCosts, way: Way, at: int) -> Layer:
        """Return one layer of the network, with the tensor's move if another kind precedes it in the body."""
        kind = self.order[at]
        slope, base = costs.layers[kind][way].slope, costs.layers[kind][way].base
        forward, backward = slope.forward_ns, slope.backward_ns + self._share(slope.update_ns)
        if at > self.body[0] and self.order[at - 1] != kind:
            more, back = costs.between(at, way)
            forward, backward = forward + more, backward + back
        tensor, placement = costs.entry(at, way)
        activation = slope.activation_bytes + max(0, base.activation_bytes)
        kept = min(activation, local_bytes(tensor, placement, costs.mesh.shape))
        whole = _gathered_bytes(costs, way, at, max(at - 1, self.body[0]))
        working = partial(self._working, costs, kind, activation, whole)
        return Layer(
            name=f"kind {kind}",
            forward_ns=forward,
            parameter_bytes=slope.static_bytes + max(0, base.static_bytes),
            modes={
                NONE: Mode(activation_bytes=activation, backward_ns=backward, working_bytes=working()),
                **{
                    name: Mode(
                        activation_bytes=min(activation, cost.activation_bytes),
                        backward_ns=backward + min(cost.again_ns, forward),
                        working_bytes=working(recompute=name),
                    )
                    for name, cost in costs.layers[kind][way].recomputed.items()
                },
                FULL: Mode(
                    activation_bytes=kept, backward_ns=forward + backward, working_bytes=working(recompute=FULL)
                ),
                **self._offloaded(activation, forward, backward, working()),
            },
        )

    def _offloaded(self, activation: int, forward_ns: int, backward_ns: int, working: int) -> dict[str, Mode]:
        """Return the mode in which activations wait on the host, if devices can reach it.

        They go there while the next layer computes, and come back while the one behind it does. What takes longer than
        that is waited for; it all counts in the backward, which has a time of its own under each kind.
        """
        if self.cluster.host is None:
            return {}
        copy_ns = self.cluster.host.transfer_ns(activation)
        waits_ns = max(0, copy_ns - forward_ns) + max(0, copy_ns - backward_ns)
        return {
            OFFLOAD: Mode(
                activation_bytes=0, backward_ns=backward_ns + waits_ns, working_bytes=working + 2 * activation
            )
        }

    def _working(
        self, costs: MeshCosts, kind: int, activation_bytes: int, gathered_bytes: int, *, recompute: str = NONE
    ) -> int:
        """Return a device's working memory for a layer of `kind` of which it keeps `activation_bytes`."""
        if not self.working:
            return gathered_bytes
        known = self.working[kind]
        return gathered_bytes + known.on_device(
            known.recomputing_bytes.get(recompute, known.plain_bytes),
            activation_bytes=activation_bytes,
            num_devices=prod(costs.mesh.shape),
        )

    def _end(self, costs: MeshCosts, way: Way, at: int, joint: int) -> EndBlock:
        """Return head or tail, with the move between it and the body at layer `joint`."""
        kind = self.order[at]
        slope = costs.layers[kind][way].slope
        forward, backward = costs.between(joint, way)
        return EndBlock(
            name=f"kind {kind}",
            forward_ns=slope.forward_ns + forward,
            backward_ns=slope.backward_ns + self._share(slope.update_ns) + backward,
            parameter_bytes=slope.static_bytes,
            activation_bytes=slope.activation_bytes,
            working_bytes=self._working(costs, kind, slope.activation_bytes, _gathered_bytes(costs, way, at, joint)),
        )

    def _share(self, update_ns: int) -> int:
        """Return a microbatch's share of the time of what happens once a step."""
        return -(-update_ns // self.num_microbatches)


def _gathered_bytes(costs: MeshCosts, way: Way, at: int, beside: int) -> int:
    """Return the bytes of parameters gathered at once: for the computing layer and for the one gathered ahead.

    In the body that is the layer before it, so that equal layers stay equal; the first one counts itself twice.
    """
    return sum(costs.layers[costs.order[place]][way].gathered_bytes for place in (at, beside))


def _numbers(network: Network, places: Sequence[int]) -> list[int]:
    """Return the costs of the layers at some places and of the ends, in a fixed order, to compare networks."""
    numbers = [network.constant_bytes]
    for layer in (network.layers[at] for at in places):
        numbers += [layer.forward_ns, layer.parameter_bytes]
        for mode in (layer.modes[kind] for kind in sorted(layer.modes)):
            numbers += [mode.activation_bytes, mode.backward_ns, mode.working_bytes]
    for end in (network.head, network.tail):
        numbers += [
            end.forward_ns,
            end.backward_ns,
            end.parameter_bytes,
            end.activation_bytes,
            end.working_bytes,
        ]
    return numbers


def in_runs(layers: Sequence[Layer]) -> tuple[LayerRun, ...]:
    """Join neighbouring equal layers into runs."""
    return tuple(LayerRun(layer=layer, count=len(list(group))) for layer, group in groupby(layers))
