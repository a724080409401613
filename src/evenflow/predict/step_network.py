"""A training as evenflow's planner sees it: a network of layers with times and memory, and the plan of its cells."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import Topology
from evenflow.model import FULL, NONE, SELECT, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.predict.activations import (
    head_activations,
    layer_activations,
    layer_working,
    tail_activations,
    tail_working,
)
from evenflow.predict.end_work import head_passes, tail_passes
from evenflow.predict.held import total
from evenflow.predict.layer_work import Passes, layer_passes
from evenflow.predict.memory import constant_bytes
from evenflow.predict.parameters import (
    Parameters,
    dense_group,
    expert_group,
    head_parameters,
    layer_parameters,
    tail_parameters,
)
from evenflow.predict.pricing import Spending, overlapped, priced
from evenflow.predict.state import state_bytes
from evenflow.predict.training import Sharding, Training
from evenflow.predict.work import Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPart:
    """A layer, the head or the tail on one device: its time by what it is spent on, and its parameters."""

    forward: Spending
    backward: dict[str, Spending]
    """By recompute kind."""
    parameters: Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedNetwork:
    """A network and what its times are spent on."""

    network: Network
    layers: tuple[PricedPart, ...]
    """One for each body layer."""
    head: PricedPart
    tail: PricedPart


def priced_network(training: Training, topology: Topology) -> PricedNetwork:
    """Return the network of one pipeline of `training`."""
    model = training.model
    kinds = [_layer_kind(training, layer) for layer in range(model.layers)]
    made = {kind: _priced_layer(training, topology, *kind) for kind in dict.fromkeys(kinds)}
    head = _priced_end(training, topology, head_passes(training), head_parameters(training))
    alone = training.degrees.pipeline == 1
    tail = _priced_end(training, topology, tail_passes(training), tail_parameters(training, has_embedding=alone))
    network = Network(
        name=model.name,
        runs=tuple(LayerRun(layer=_layer(training, kind, made[kind]), count=count) for kind, count in _runs(kinds)),
        head=replace(_end("embedding", training, head), activation_bytes=total(head_activations(training))),
        tail=replace(
            _end("output", training, tail),
            activation_bytes=total(tail_activations(training)),
            working_bytes=total(tail_working(training)),
        ),
        constant_bytes=constant_bytes(training),
    )
    return PricedNetwork(network=network, layers=tuple(made[kind] for kind in kinds), head=head, tail=tail)


_Kind = tuple[bool, bool]
"""Whether a layer has experts, and a window."""


def _layer_kind(training: Training, layer: int) -> _Kind:
    model = training.model
    return model.has_experts(layer), model.has_window(layer)


def _runs(kinds: list[_Kind]) -> Iterator[tuple[_Kind, int]]:
    begin = 0
    for end in range(1, len(kinds) + 1):
        if end == len(kinds) or kinds[end] != kinds[begin]:
            yield kinds[begin], end - begin
            begin = end


def _priced_layer(training: Training, topology: Topology, has_experts: bool, has_window: bool) -> PricedPart:
    passes = layer_passes(training, has_experts=has_experts, has_window=has_window)
    parameters = layer_parameters(training, has_experts=has_experts)
    select = tuple(work for work in passes.forward if work.module in training.recompute_modules)
    backward = {
        NONE: passes.backward,
        SELECT: (*select, *passes.backward),
        FULL: (*passes.forward, *passes.backward),
    }
    part = PricedPart(
        forward=priced(passes.forward, topology),
        backward={kind: priced(works, topology) for kind, works in backward.items()},
        parameters=parameters,
    )
    return _sharded(training, topology, part)


def _priced_end(training: Training, topology: Topology, passes: Passes, parameters: Parameters) -> PricedPart:
    backward = {NONE: priced(passes.backward, topology)}
    part = PricedPart(forward=priced(passes.forward, topology), backward=backward, parameters=parameters)
    return _sharded(training, topology, part)


def _sharded(training: Training, topology: Topology, part: PricedPart) -> PricedPart:
    """Add what fully sharded parameters exchange with every microbatch, under the computation of neighbours."""
    if training.degrees.sharding is not Sharding.PARAMETERS:
        return part
    groups = (dense_group(training.degrees), part.parameters.dense), (expert_group(training), part.parameters.expert)
    gather = reduce = 0.0
    for group, count in groups:
        if group.size > 1 and count:
            ends = topology.axis(group, Collective.ALL_GATHER)
            gather += collective_ns(ends, Collective.ALL_GATHER, round(2 * count))
            size = round(training.software.gradient_bytes * count)
            reduce += collective_ns(ends, Collective.REDUCE_SCATTER, size)
    return replace(
        part,
        forward=overlapped(part.forward, Spent.DATA, gather),
        backward={kind: overlapped(one, Spent.DATA, gather + reduce) for kind, one in part.backward.items()},
    )


def _layer(training: Training, kind: _Kind, part: PricedPart) -> Layer:
    has_experts, has_window = kind
    name = ("experts" if has_experts else "dense") + (", window" if has_window else "")
    modes = {
        mode: Mode(
            activation_bytes=total(layer_activations(training, has_experts=has_experts, kind=mode)),
            backward_ns=round(part.backward[mode].total_ns),
            working_bytes=total(layer_working(training, has_experts=has_experts, kind=mode)),
        )
        for mode in part.backward
    }
    return Layer(
        name=name,
        forward_ns=round(part.forward.total_ns),
        parameter_bytes=state_bytes(training, part.parameters),
        modes=modes,
    )


def _end(name: str, training: Training, part: PricedPart) -> EndBlock:
    return EndBlock(
        name=name,
        forward_ns=round(part.forward.total_ns),
        backward_ns=round(part.backward[NONE].total_ns),
        parameter_bytes=state_bytes(training, part.parameters),
    )
