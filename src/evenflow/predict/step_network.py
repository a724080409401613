"""A training as evenflow's planner sees it: a network of layers with times and memory, and the plan of its cells."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import Topology
from evenflow.model import FULL, NONE, EndBlock, Halves, Layer, LayerRun, Mode, Network
from evenflow.predict.activations import (
    expert_bytes,
    head_activations,
    head_working,
    layer_activations,
    layer_working,
    moved_bytes,
    tail_activations,
    tail_working,
)
from evenflow.predict.end_work import head_passes, tail_passes
from evenflow.predict.expert_work import exchanges_tokens, expert_tensor
from evenflow.predict.held import total
from evenflow.predict.hidden_exchanges import under_others, without_own_overlap
from evenflow.predict.layer_work import layer_passes, own_message_bytes
from evenflow.predict.memory import constant_bytes
from evenflow.predict.parameters import (
    Parameters,
    head_parameters,
    layer_parameters,
    shares,
    tail_parameters,
    used_parameters,
)
from evenflow.predict.passes import ADAPTERS, HALF, Passes
from evenflow.predict.pricing import Spending, halves_of, overlapped, priced
from evenflow.predict.state import state_bytes
from evenflow.predict.training import PRODUCTS, Sharding, Training, moved_chain
from evenflow.predict.transformer import LayerKind, OwnSizes
from evenflow.predict.work import Operators, Spent, Work

_FROM_GRAPH_NS = 2_000.0
"""Least time of an operator that a captured graph launches: the device begins one after the other by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPart:
    """A layer, the head or the tail on one device: its time by what it is spent on, and its parameters."""

    forward: Spending
    backward: dict[str, Spending]
    """By recompute kind, what is computed again included."""
    recomputed: dict[str, Spending]
    """What of it is computed again, by recompute kind."""
    parameters: Parameters
    used: Parameters | None = None
    """Parameters that its passes need, of shared blocks too, as often as they need them; None: its own, once."""
    halves: Halves | None = None
    """Its halves and the exchanges between them, where tokens are exchanged between experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedNetwork:
    """A network and what its times are spent on."""

    network: Network
    layers: tuple[PricedPart, ...]
    """One for each body layer."""
    head: PricedPart
    tail: PricedPart


class LayerBytes(NamedTuple):
    """Bytes that a layer keeps of a microbatch until its backward, and what that needs."""

    activations: int
    """On the device."""
    working: int
    """Of the backward, at its fullest moment."""
    moved: int
    """On the host."""
    moved_parts: tuple[int, ...] = ()
    """Of every module that moves, in the order of the forward."""
    experts: int = 0
    """Of the activations, what experts keep of what they compute between both exchanges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPass:
    """What a microbatch takes on one device before copies of the model exchange anything, and what it keeps."""

    layers: Mapping[LayerKind, PricedPart]
    kept: Mapping[LayerKind, Mapping[str, LayerBytes]]
    """What a layer keeps, by recompute kind."""
    head: PricedPart
    tail: PricedPart
    """With the parameters of a rank that has no embedding."""


PassesKnown = dict[Training, PricedPass]
"""Passes by what they depend on: trainings that differ in nothing else share them."""


def priced_network(training: Training, topology: Topology, *, known: PassesKnown | None = None) -> PricedNetwork:
    """Return the network of one pipeline of `training`; `known` caches passes on the same topology."""
    model = training.model
    topology = captured(training, topology)
    one_pass = _pass_of(training, topology, {} if known is None else known)
    kinds = model.kinds
    made = {kind: sharded(training, topology, part) for kind, part in one_pass.layers.items()}
    head = _with_first_and_last(training, topology, sharded(training, topology, one_pass.head), made[kinds[0]])
    tail = one_pass.tail
    if training.degrees.pipeline == 1:
        tail = replace(tail, parameters=tail_parameters(training, has_embedding=True))
    tail = sharded(training, topology, tail)
    runs = [(layer_of(training, kind, made[kind], one_pass.kept[kind]), count) for kind, count in _runs(kinds)]
    network = Network(
        name=model.name,
        runs=tuple(LayerRun(layer=layer, count=count) for layer, count in runs),
        head=replace(
            end_block("embedding", training, head),
            activation_bytes=total(head_activations(training)),
            working_bytes=total(head_working(training)),
        ),
        tail=replace(
            end_block("output", training, tail),
            activation_bytes=total(tail_activations(training)),
            working_bytes=total(tail_working(training)),
        ),
        constant_bytes=constant_bytes(training, topology.accelerator),
        adapter_rank=model.adapter_rank,
        pair_slowdown=topology.accelerator.reached.pair_slowdown if exchanges_tokens(training) else 1.0,
        host_link=training.host_link,
    )
    return PricedNetwork(network=network, layers=tuple(made[kind] for kind in kinds), head=head, tail=tail)


def captured(training: Training, topology: Topology) -> Topology:
    """Return the topology as `training` launches its kernels: from captured graphs, the host costs nothing."""
    device = topology.accelerator
    if not training.software.captured_graphs:
        return topology
    reached = replace(device.reached, operator_ns=min(device.reached.operator_ns, _FROM_GRAPH_NS))
    return replace(topology, accelerator=replace(device, reached=reached))


def _pass_of(training: Training, topology: Topology, known: PassesKnown) -> PricedPass:
    """Return the passes on one device, which do not depend on copies of the model, ranks or their order."""
    alone = on_one_device(without_own_overlap(training))
    priced_pass = known.get(alone)
    if priced_pass is None:
        kinds = dict.fromkeys(alone.model.kinds)
        priced_pass = known[alone] = PricedPass(
            layers={kind: priced_layer_of(alone, topology, kind) for kind in kinds},
            kept={kind: kept_by_kind(alone, kind) for kind in kinds},
            head=priced_end(topology, head_passes(alone), head_parameters(alone)),
            tail=priced_end(
                topology,
                under_others(alone, topology, tail_passes(alone)),
                tail_parameters(alone, has_embedding=False),
            ),
        )
    return priced_pass


def on_one_device(training: Training) -> Training:
    """Return the training of one microbatch without copies of the model and ranks."""
    return replace(
        training, global_batch=training.microbatch, schedule=None, layout=(), group_size=None, host_update=None,
        degrees=replace(
            training.degrees, pipeline=1, chunks=1, data=1, sharding=Sharding.NOTHING, optimizer_offload=0.0,
            expert_tensor=expert_tensor(training),
        ),
    )  # fmt: skip


def _runs(kinds: tuple[LayerKind, ...]) -> Iterator[tuple[LayerKind, int]]:
    begin = 0
    for end in range(1, len(kinds) + 1):
        if end == len(kinds) or kinds[end] != kinds[begin]:
            yield kinds[begin], end - begin
            begin = end


def priced_layer_of(training: Training, topology: Topology, kind: LayerKind) -> PricedPart:
    """Return a body layer of this kind."""
    part = priced_layer(training, topology, layer_passes(training, kind), layer_parameters(training, kind))
    return replace(part, used=used_parameters(training, kind)) if kind.shared or kind.is_looped else part


def priced_layer(training: Training, topology: Topology, passes: Passes, parameters: Parameters) -> PricedPart:
    """Return a layer with these passes, whose backwards compute again what the recompute kinds do.

    Of its exchanges of tokens, those that are repeated hide under nothing.
    """
    again = {kind: tuple(_selected(passes.forward, training.modules_under(kind))) for kind in training.kinds}
    again[FULL] = passes.forward
    if training.model.reversible:  # it keeps nothing whatever the kind
        again = dict.fromkeys(again, passes.forward)
    if not passes.backward:  # it keeps nothing that could be computed again
        again = dict.fromkeys(again, ())
    passes = under_others(training, topology, passes)
    return PricedPart(
        forward=priced(passes.whole_forward, topology),
        backward={mode: priced((*works, *passes.backward), topology) for mode, works in again.items()},
        recomputed={mode: priced(works, topology) for mode, works in again.items()},
        parameters=parameters,
        halves=_halves(training, topology, passes),
    )


def _halves(training: Training, topology: Topology, passes: Passes) -> Halves | None:
    """Return the halves of a layer and the exchanges between them, where experts exchange tokens once in a pass."""
    if not (passes.backward and exchanges_tokens(training)):
        return None
    forward, backward = halves_of(passes.whole_forward, topology), halves_of(passes.backward, topology)
    return Halves(forward=forward, backward=backward) if forward and backward else None


def _selected(works: Iterable[Work], modules: Collection[str]) -> Iterator[Work]:
    """Yield the work that selective recomputation repeats."""
    products = 0
    for work in works:
        if work.module == ADAPTERS:
            continue  # their narrow results are kept
        if work.module in modules:
            yield work
        elif PRODUCTS in modules and isinstance(work, Operators):
            products += work.spent is Spent.PRODUCTS
            if work.spent is Spent.OTHER or (work.spent is Spent.PRODUCTS and products % 2 == 0):
                yield work


def priced_end(topology: Topology, passes: Passes, parameters: Parameters) -> PricedPart:
    """Return an end of the model with these passes."""
    return PricedPart(
        forward=priced(passes.forward, topology),
        backward={NONE: priced(passes.backward, topology)},
        recomputed={NONE: Spending()},
        parameters=parameters,
    )


def kept_by_kind(training: Training, layer: LayerKind) -> dict[str, LayerBytes]:
    """Return what a layer keeps, by recompute kind."""
    return {
        kind: LayerBytes(
            activations=total(layer_activations(training, layer, kind=kind)),
            working=total(layer_working(training, layer, kind=kind)),
            moved=moved_bytes(training, layer, kind=kind),
            moved_parts=_moved_parts(training, layer, kind),
            experts=expert_bytes(training, layer, kind=kind),
        )
        for kind in training.kinds
    }


def _moved_parts(training: Training, layer: LayerKind, kind: str) -> tuple[int, ...]:
    """Return the bytes that each module of a kind keeps on the host, which add up to those of the kind."""
    moved = [moved_bytes(training, layer, kind=part) for part in moved_chain(kind)]
    return tuple(after - before for before, after in pairwise(moved))


def sharded(training: Training, topology: Topology, part: PricedPart) -> PricedPart:
    """Add the exchanges of sharded parameters and gradients of every microbatch, hidden under neighbouring layers."""
    gather, reduce = exchanges_ns(training, topology, part.used or part.parameters)
    if not (gather or reduce):
        return part
    return replace(
        part,
        forward=overlapped(part.forward, Spent.DATA, gather),
        backward={kind: overlapped(spending, Spent.DATA, gather + reduce) for kind, spending in part.backward.items()},
    )


def _with_first_and_last(training: Training, topology: Topology, head: PricedPart, layer: PricedPart) -> PricedPart:
    """Add what no computation hides: the first parameters that are gathered, the last gradients that are reduced.

    Of the first layer that is the shorter one of computation and exchange; the longer one is counted with the layer.
    """
    of_layer = exchanges_ns(training, topology, layer.used or layer.parameters)
    if not any(of_layer):
        return head
    forward = Spending(dict(head.forward.exposed), dict(head.forward.hidden))
    forward.add(Spent.DATA, min(of_layer[0], layer.forward.total_ns))
    backward = Spending(dict(head.backward[NONE].exposed), dict(head.backward[NONE].hidden))
    backward.add(Spent.DATA, min(of_layer[1], layer.backward[NONE].total_ns))
    return replace(head, forward=forward, backward={NONE: backward})


def exchanges_ns(training: Training, topology: Topology, parameters: Parameters) -> tuple[float, float]:
    """Return the time to gather parameters before a pass, and to reduce gradients, of every microbatch.

    Gradients and parameters are shared out layer by layer where there is no pipeline; a pipeline keeps what it has
    gathered, and reduces once a step (see `data_parallel`).
    """
    sharding = training.degrees.sharding
    gathers, reduces = sharding is Sharding.PARAMETERS, sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
    gather = reduce = 0.0
    if training.degrees.pipeline > 1 or not reduces:
        return gather, reduce
    for group, count in shares(training, parameters):
        if group.size == 1:
            continue
        if gathers:
            axis = topology.axis(group, Collective.ALL_GATHER, is_streamed=True)
            gather += collective_ns(axis, Collective.ALL_GATHER, round(HALF * count))
        axis = topology.axis(group, Collective.REDUCE_SCATTER, is_streamed=True)
        size = round(training.software.reduced_bytes * count)
        reduce += collective_ns(axis, Collective.REDUCE_SCATTER, size)
    return gather, reduce


def layer_of(training: Training, kind: LayerKind, part: PricedPart, kept: Mapping[str, LayerBytes]) -> Layer:
    """Return a priced layer for the planner; `kept` has what it keeps by recompute kind."""
    modes = {
        mode: Mode(
            activation_bytes=size.activations,
            offloaded_bytes=size.moved,
            moved_parts=size.moved_parts,
            backward_ns=round(part.backward[mode].total_ns),
            working_bytes=size.working,
            mlp_bytes=0 if part.halves is None else size.experts,
        )
        for mode, size in kept.items()
    }
    return Layer(
        name=_name(training, kind),
        forward_ns=round(part.forward.total_ns),
        parameter_bytes=state_bytes(training, part.parameters),
        modes=modes,
        halves=part.halves,
        cut_before=not kind.joined,
        boundary_bytes=own_message_bytes(training, kind),
    )


def _name(training: Training, kind: LayerKind) -> str:
    """Return a layer's kind in words: those of an ordinary layer are left out."""
    state = training.model.states.mixer
    words = ["frozen"] if kind.frozen else []
    words += [f"{kind.passes + kind.unkept} passes"] if kind.is_looped else []
    words += ["shared block"] if kind.shared else []
    if not kind.mixes:
        return ", ".join([*words, "experts only" if kind.experts else "MLP"])
    words += ["experts"] if kind.experts else []
    words += ["dense"] if kind.mlp else []
    words += ["window"] if kind.window else []
    words += ["images"] if kind.sees_images else []
    words += _own_words(kind.own) if kind.own is not None else []
    words += [state.name] if kind.state and state is not None else []
    if kind.attention and (kind.state or not kind.transforms):
        words.append("attention")
    return ", ".join(words)


def _own_words(own: OwnSizes) -> list[str]:
    """Return what sizes of a layer's own say of its kind."""
    words = ["hashed" if own.chunked.hashes else "chunks"] if own.chunked is not None else []
    words += ["patches"] if own.of_patches else []
    return words + (["patch attention"] if own.crossing is not None else [])


def end_block(name: str, training: Training, part: PricedPart) -> EndBlock:
    """Return a priced end of the model for the planner, without its activations."""
    return EndBlock(
        name=name,
        forward_ns=round(part.forward.total_ns),
        backward_ns=round(part.backward[NONE].total_ns),
        parameter_bytes=state_bytes(training, part.parameters),
    )
