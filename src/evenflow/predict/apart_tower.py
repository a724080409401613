"""The encoders apart from the pipeline: all ranks encode the images of a step, then the decoder is trained.

Every rank has all encoders and an equal share of the images of each; the ranks are copies as in data parallelism.
Their tokens go to the first stage, whose gradients come back behind the pipeline, where an encoder runs again for its
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
from evenflow.predict.tower import TowerPart, parts_of_tower
from evenflow.predict.training import Training
from evenflow.predict.transformer import Tower


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartTower:
    """The pipeline without its encoders, and what these take before and behind it."""

    network: Network
    """Every rank holds the encoders, and the first stage what they gave for all microbatches."""
    before_ns: int
    """Encoding all images, and the way of their tokens to the first rank."""
    behind_ns: int
    """The way of their gradients back, and the backward, with what is computed again for it."""


def with_apart_tower(training: Training, topology: Topology) -> ApartTower:
    """Return the pipeline of a training whose encoders run apart from it, one after the other, on all ranks."""
    plain = replace(training, model=replace(training.model, towers=()))
    network = priced_network(plain, topology).network
    degrees = training.degrees
    copies = replace(training, degrees=replace(degrees, data=degrees.data * degrees.pipeline, pipeline=1, chunks=1))
    apart = [_apart(training, topology, tower) for tower in training.model.towers]
    parameters = reduce(add, (encoder.parameters for encoder in apart), Parameters())
    held = sum(training.microbatches * _token_bytes(training, tower) for tower in training.model.towers)
    return ApartTower(
        network=replace(
            network,
            constant_bytes=network.constant_bytes + state_bytes(copies, parameters),
            head=replace(network.head, parameter_bytes=network.head.parameter_bytes + held),
        ),
        before_ns=sum(encoder.before_ns for encoder in apart),
        behind_ns=sum(encoder.behind_ns for encoder in apart),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apart:
    """One encoder on all ranks."""

    parameters: Parameters
    before_ns: int
    behind_ns: int


def _apart(training: Training, topology: Topology, tower: Tower) -> _Apart:
    parts = list(parts_of_tower(on_one_device(training), tower))
    trained = [part for part in parts if part.is_trained]
    parameters = reduce(add, map(tower_parameters, parts), Parameters())
    inputs, ranks = training.microbatch * tower.inputs, training.degrees.pipeline
    share = -(-training.microbatches * inputs // ranks) / inputs
    device = captured(training, topology)
    again = _passes(trained)
    sent_ns = _sent_ns(training, topology, tower)
    return _Apart(
        parameters=parameters,
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
