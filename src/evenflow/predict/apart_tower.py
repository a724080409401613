"""The encoders beside the pipeline: every rank encodes a part of the images and sounds of a step, for the decoder.

Every rank has all encoders and does a share of their work; the ranks are copies as in data parallelism. Their tokens go
to the first stage, whose gradients come back, and an encoder runs again for its backward; it keeps nothing in between.
Where blocks are not trained, the projectors behind them keep their inputs, an equal share of them on each rank.
[Kimi K2.5, arXiv:2602.02276, decoupled encoder process]
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from math import gcd
from operator import add

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.model import NONE, EncoderWork, Network
from evenflow.predict.activations import tower_activations
from evenflow.predict.end_work import tower_passes
from evenflow.predict.held import added, total
from evenflow.predict.parameters import Parameters, tower_parameters
from evenflow.predict.passes import HALF, Passes
from evenflow.predict.pricing import priced
from evenflow.predict.state import state_bytes
from evenflow.predict.step.messages import planned_messages
from evenflow.predict.step_network import captured, on_one_device, priced_network
from evenflow.predict.tower import TowerPart, parts_of_tower, trains_blocks
from evenflow.predict.training import Training


def with_apart_tower(training: Training, topology: Topology, *, in_bubbles: bool) -> Network:
    """Return the network of a training whose encoders are on all ranks, beside the pipeline of the decoder.

    `in_bubbles` says that they run in bubbles too. A part of their work is then the images of a microbatch by the
    greatest number that divides those of every encoder, one image where there is one encoder alone.
    """
    model = training.model
    network = priced_network(replace(training, model=replace(model, towers=())), topology).network
    degrees = training.degrees
    copies = replace(training, degrees=replace(degrees, data=degrees.data * degrees.pipeline, pipeline=1, chunks=1))
    alone = on_one_device(training)
    parts = [replace(part, kind=NONE) for tower in model.towers for part in parts_of_tower(alone, tower)]
    parameters = reduce(add, map(tower_parameters, parts), Parameters())
    count = training.microbatch * gcd(*(tower.inputs for tower in model.towers))
    held = training.microbatches * _token_bytes(training)
    kept = total(added(*map(tower_activations, (part for part in parts if part.is_trained))))
    if any(trains_blocks(model, tower) for tower in model.towers):  # of one part, beside what the pipeline keeps
        kept = -(-kept // count) if in_bubbles else 0
    else:  # projectors keep their inputs: nobody would run frozen blocks again for them
        kept = -(-kept * training.microbatches // degrees.pipeline)
    return replace(
        network,
        constant_bytes=network.constant_bytes + state_bytes(copies, parameters) + kept,
        head=replace(network.head, parameter_bytes=network.head.parameter_bytes + held),
        encoder_work=_work(training, topology, parts, count, in_bubbles=in_bubbles),
    )


def _work(
    training: Training, topology: Topology, parts: Iterable[TowerPart], count: int, *, in_bubbles: bool
) -> EncoderWork:
    """Return what encoders of these parts do, in `count` parts of a microbatch."""
    trained = [part for part in parts if part.is_trained]
    device = captured(training, topology)
    forward, again = _passes(parts), _passes(trained)
    ranks = training.degrees.pipeline
    sent_ns = 0
    if ranks > 1:
        size = -(-_token_bytes(training) // count)
        sent_ns = planned_messages(training, topology, range(ranks)).message_of_ns(size)
    return EncoderWork(
        parts=count,
        forward_ns=max(1, round(priced(forward.forward, device).total_ns / count)),
        backward_ns=round(priced((*again.forward, *again.backward), device).total_ns / count),
        message_ns=sent_ns,
        summed_ns=_summed_ns(training, topology, reduce(add, map(tower_parameters, trained))) if trained else 0,
        in_bubbles=in_bubbles,
    )


def _passes(parts: Iterable[TowerPart]) -> Passes:
    """Return the passes of these parts for one microbatch."""
    return reduce(add, map(tower_passes, parts), Passes((), ()))


def _token_bytes(training: Training) -> int:
    """Return the bytes of what encoders give to the decoder for one microbatch."""
    images, hidden = training.model.images, training.model.hidden
    widths = (images.width if images is not None and tower.is_beside else hidden for tower in training.model.towers)
    numbers = (
        tower.tokens * (1 + len(tower.taps)) * width for tower, width in zip(training.model.towers, widths, strict=True)
    )
    return HALF * training.microbatch * sum(numbers)


def _summed_ns(training: Training, topology: Topology, parameters: Parameters) -> int:
    """Return how long the ranks' gradients of encoders take to be added up, beyond those of copies of the model."""
    degrees = training.degrees
    if degrees.pipeline == 1:
        return 0
    group = DeviceGroup(size=degrees.pipeline, stride=degrees.tensor * degrees.context * degrees.data)
    size = round(training.software.reduced_bytes * (parameters.dense + parameters.expert))
    return round(collective_ns(topology.axis(group, Collective.ALL_REDUCE), Collective.ALL_REDUCE, size))
