"""The encoder of images apart from the pipeline: all ranks encode the images of a step, then the decoder is trained.

Every rank has the whole encoder and an equal share of the images; the ranks are copies like those of data parallelism.
Their tokens go to the first stage, whose gradients come back behind the pipeline, where the encoder runs again for its
backward; it keeps nothing in between. [Kimi K2.5, arXiv:2602.02276, decoupled encoder process]
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.model import NONE, Network
from evenflow.predict.end_work import tower_passes
from evenflow.predict.layer_work import HALF, Passes
from evenflow.predict.parameters import Parameters, tower_parameters
from evenflow.predict.pricing import priced
from evenflow.predict.state import state_bytes
from evenflow.predict.step.messages import planned_messages
from evenflow.predict.step_network import captured, on_one_device, priced_network
from evenflow.predict.tower import TowerPart, tower_parts
from evenflow.predict.training import Training
from evenflow.predict.transformer import Tower


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartTower:
    """The pipeline without its encoder, and what that takes before and behind it."""

    network: Network
    """Every rank holds the encoder, and the first stage what it gave for all microbatches."""
    before_ns: int
    """Encoding all images, and the way of their tokens to the first rank."""
    behind_ns: int
    """The way of their gradients back, and the backward, with what is computed again for it."""


def with_apart_tower(training: Training, topology: Topology, tower: Tower) -> ApartTower:
    """Return the pipeline of a training whose encoder of images runs apart from it, on all ranks."""
    plain = replace(training, model=replace(training.model, tower=None))
    network = priced_network(plain, topology).network
    alone = on_one_device(training)
    parts = list(tower_parts(alone))
    parameters = reduce(add, map(tower_parameters, parts), Parameters())
    microbatches, ranks = training.microbatches, training.degrees.pipeline
    images = training.microbatch * tower.images
    share = -(-microbatches * images // ranks) / images
    degrees = training.degrees
    copies = replace(training, degrees=replace(degrees, data=degrees.data * ranks, pipeline=1, chunks=1))
    held = microbatches * _token_bytes(training, tower)
    trained = [part for part in parts if part.is_trained]
    again = _passes(trained)
    device = captured(training, topology)
    sent_ns = _sent_ns(training, topology, tower)
    return ApartTower(
        network=replace(
            network,
            constant_bytes=network.constant_bytes + state_bytes(copies, parameters),
            head=replace(
                network.head,
                parameter_bytes=network.head.parameter_bytes + held,
            ),
        ),
        before_ns=round(share * priced(_passes(parts).forward, device).total_ns) + sent_ns,
        behind_ns=round(share * priced((*again.forward, *again.backward), device).total_ns)
        + (sent_ns + _summed_ns(training, topology, parameters) if trained else 0),
    )


def _passes(parts: Iterable[TowerPart]) -> Passes:
    """Return the passes of these parts for one microbatch, nothing of them computed again."""
    return reduce(add, (tower_passes(replace(part, kind=NONE)) for part in parts), Passes((), ()))


def _token_bytes(training: Training, tower: Tower) -> int:
    """Return the bytes of what the encoder gives to the decoder for one microbatch."""
    size = HALF * training.microbatch * tower.tokens * training.model.hidden
    return size * (1 + len(tower.taps))


def _summed_ns(training: Training, topology: Topology, parameters: Parameters) -> int:
    """Return how long the ranks' gradients of the encoder take to be added up, beyond those of copies of the model."""
    degrees = training.degrees
    if degrees.pipeline == 1:
        return 0
    group = DeviceGroup(size=degrees.pipeline, stride=degrees.tensor * degrees.context * degrees.data)
    size = round(training.software.reduced_bytes * (parameters.dense + parameters.expert))
    return round(collective_ns(topology.axis(group, Collective.ALL_REDUCE), Collective.ALL_REDUCE, size))


def _sent_ns(training: Training, topology: Topology, tower: Tower) -> int:
    """Return how long the tokens of all other ranks' images take on the link of the first rank, one after the other."""
    ranks = training.degrees.pipeline
    if ranks == 1:
        return 0
    messages = planned_messages(training, topology, range(ranks))
    size = _token_bytes(training, tower) * training.microbatches * (ranks - 1) // ranks
    return messages.message_of_ns(size)
