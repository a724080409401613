"""Blocks as two layers each, attention or what stands in its place and then MLP or experts, with a cut between them.

Recomputed in full, each of the two keeps an input of its own, where a whole block keeps one. [Megatron-LM, hybrid
models, whose layers are half blocks]
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Layer, LayerRun, Network
from evenflow.predict.step_network import captured, kept_by_kind, layer_of, on_one_device, priced_layer_of, sharded
from evenflow.predict.training import Training
from evenflow.predict.transformer import LayerKind, Transformer


def with_half_blocks(training: Training, topology: Topology, network: Network) -> Network:
    """Return the network of a training with each block of its decoder as two layers.

    Layers that only mix tokens, or only transform them, stay as they are.

    Raises:
        InputError: no block that has two halves one after the other.
    """
    model = training.model
    if count_half_blocks(model) == model.layers:
        rule = _("must have blocks of attention and then an MLP or experts, to part them")
        raise InputError(rule=rule, place=_("layers of {name}", name=model.name))
    topology, alone = captured(training, topology), on_one_device(training)
    known: dict[LayerKind, Layer] = {}

    def made(kind: LayerKind) -> Layer:
        if kind not in known:
            part = sharded(training, topology, priced_layer_of(alone, topology, kind))
            known[kind] = layer_of(training, kind, part, kept_by_kind(alone, kind))
        return known[kind]

    def parted() -> Iterator[Layer]:
        first = network.encoder_layers
        yield from network.layers[:first]
        for kind, block in zip(model.kinds, network.layers[first:], strict=False):
            if not has_halves(model, kind):
                yield block
                continue
            mixing, transforming = map(made, halves(kind))
            sent = block.boundary_bytes
            yield replace(mixing, cut_before=block.cut_before, boundary_bytes=sent)
            yield replace(transforming, continues_block=True, boundary_bytes=sent, cut_before=not kind.is_looped)
        yield from network.layers[first + model.layers :]

    runs = tuple(LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(parted()))
    return replace(network, runs=runs)


def count_half_blocks(model: Transformer) -> int:
    """Return the layers of a decoder where each block that has two halves counts as two."""
    return model.layers + sum(has_halves(model, kind) for kind in model.kinds)


def has_halves(model: Transformer, kind: LayerKind) -> bool:
    """Return whether a layer of this kind mixes tokens and then transforms them, once, each behind norms of its own."""
    own = model.with_sizes_of(kind)
    return kind.mixes and kind.transforms and own.repeats == 1 and own.norms_of(kind) % 2 == 0


def halves(kind: LayerKind) -> tuple[LayerKind, LayerKind]:
    """Return the kinds of the two halves of a layer."""
    mixing = replace(kind, mlp=False, experts=False)
    transforming = replace(
        kind, attention=False, state=False, window=False, indexed=False, indexer=False, second=True, sees_images=False
    )
    return mixing, transforming
