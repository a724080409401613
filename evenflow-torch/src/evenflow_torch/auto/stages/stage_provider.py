"""The cost of one way to run a stage, and the protocol of what can be asked for such costs."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evenflow.cluster import Cluster, Submesh, TensorLayout
from evenflow.model import NONE, Network
from evenflow.simulate import LayerSums
from evenflow_torch.auto.sharding.ways import MeshSharding


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One way to run a stage on a submesh; times for one microbatch, memory of each device."""

    forward_ns: int
    backward_ns: int
    """Nanoseconds of the backward, recomputation included."""
    static_bytes: int
    """Parameters, gradients and optimizer state, and what the most demanding layer needs for its work."""
    activation_bytes: int
    """Bytes for each microbatch in flight."""
    sharding: MeshSharding
    recompute: str = NONE
    """The kind of all its layers, or of the first of them."""
    rest: tuple[str, int] | None = None
    """The kind of the last layers, and how many there are, where it is another."""

    def layers_by_kind(self, num_layers: int) -> dict[str, int]:
        """Return how many of `num_layers` layers have each recompute kind.

        >>> from evenflow_torch.auto.sharding.ways import MeshSharding
        >>> sizes = {"forward_ns": 1, "backward_ns": 2, "static_bytes": 3, "activation_bytes": 4}
        >>> cost = StageCost(**sizes, sharding=MeshSharding((1, 1)), recompute="full", rest=("none", 3))
        >>> cost.layers_by_kind(8)
        {'full': 5, 'none': 3}
        """
        if self.rest is None:
            return {self.recompute: num_layers}
        kind, count = self.rest
        return {self.recompute: num_layers - count, kind: count}

    def recompute_words(self, num_layers: int) -> str:
        """Return the recompute kind of `num_layers` layers, or text such as ``full 17, comm 15``."""
        if self.rest is None:
            return self.recompute
        return ", ".join(f"{kind} {count}" for kind, count in self.layers_by_kind(num_layers).items())

    @property
    def cost_ns(self) -> int:
        """Nanoseconds of forward and backward."""
        return self.forward_ns + self.backward_ns


class StageProvider(Protocol):
    """Knows what stages cost. Adding a layer to a run never makes it faster or smaller; this is relied upon."""

    @property
    def cluster(self) -> Cluster:
        """The devices that stages are chosen for."""
        ...

    @property
    def num_microbatches(self) -> int:
        """Microbatches per step."""
        ...

    def on(self, cluster: Cluster) -> "StageProvider":
        """Return the same costs on a cluster of another number of nodes."""
        ...

    @property
    def kinds(self) -> Sequence[Hashable]:
        """One value per layer; layers of equal values cost the same. The ends of the model tell their layers apart."""
        ...

    def options(self, first: int, end: int, submesh: Submesh) -> Sequence[StageCost]:
        """Return the ways to run layers [first, end) on a submesh, fitting in memory or not; none if impossible."""
        ...

    def entry_ns(self, first: int, submesh: Submesh) -> int:
        """Return the least time that a stage from layer `first` on waits for its input and sends the gradient back."""
        ...

    def network_on(self, submesh: Submesh, sharding: MeshSharding) -> Network:
        """Return the network with the costs of every single layer on a submesh."""
        ...

    def boundary(
        self, first: int, submesh: Submesh, sharding: MeshSharding, devices: Sequence[int], *, leaving: bool = False
    ) -> TensorLayout:
        """Return the layout of what enters layer `first`, on the devices of the stage that it enters, or leaves."""
        ...


def exchange_ns(cluster: Cluster, submesh: Submesh, size_bytes: int) -> int:
    """Return the least time in which a submesh receives a tensor and sends its gradient back.

    Every device receives its part from a device of its own; part of a node may have the stage before it in its node.
    """
    if submesh.num_devices == cluster.num_devices:
        return 0  # it has no stage before it, and the links may be none
    part_bytes = size_bytes // submesh.num_devices
    links = [cluster.intra] * (submesh.num_devices < cluster.devices_per_node)
    links += [cluster.inter] * (cluster.num_nodes > 1)
    return 2 * min(link.transfer_ns(part_bytes) for link in links)


def run_costs(network: Network, sums: LayerSums, first: int, end: int, sharding: MeshSharding) -> list[StageCost]:
    """Return the costs of layers [first, end) of a network on a submesh as a stage, under each recompute kind."""
    blocks = [network.head] * (first == 0) + [network.tail] * (end == network.num_layers)
    static = int(sums.parameter_bytes[end] - sums.parameter_bytes[first]) + network.constant_bytes
    forward = int(sums.forward_ns[end] - sums.forward_ns[first])
    costs = []
    for index, kind in enumerate(sums.kinds):
        backward, activation = sums.backward_ns[index], sums.activation_bytes[index]
        # A device runs one action of its one stage at a time, so working memory is there like parameters.
        working = [int(sums.working_bytes[index, first:end].max(initial=0)), *(block.working_bytes for block in blocks)]
        costs.append(
            StageCost(
                forward_ns=forward + sum(block.forward_ns for block in blocks),
                backward_ns=int(backward[end] - backward[first]) + sum(block.backward_ns for block in blocks),
                static_bytes=static + sum(block.parameter_bytes for block in blocks) + max(working),
                activation_bytes=int(activation[end] - activation[first])
                + sum(block.activation_bytes for block in blocks),
                sharding=sharding,
                recompute=kind,
            )
        )
    return costs
