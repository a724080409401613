"""Blocks that predict further tokens as layers of their own, which a plan may put into another stage than the loss.

They embed their tokens with a copy of the embedding, wherever they are; their output layers and losses are those of
the last stage. [Megatron-LM, `MultiTokenPredictionBlock`, `mtp_standalone`]
"""

from dataclasses import replace
from functools import reduce
from operator import add

from evenflow.cluster.topology import Topology
from evenflow.model import LayerRun, Network
from evenflow.predict.activations import further_logits, joined_activations, tail_activations
from evenflow.predict.end_work import mtp_passes, output_passes
from evenflow.predict.held import added, total
from evenflow.predict.parameters import Parameters, embedding_copy, mtp_parameters, tail_parameters
from evenflow.predict.passes import HALF, tokens
from evenflow.predict.step_network import (
    captured,
    end_block,
    kept_by_kind,
    layer_of,
    on_one_device,
    priced_end,
    priced_layer,
    sharded,
)
from evenflow.predict.training import Training


def with_separate_mtp(training: Training, topology: Topology, network: Network) -> Network:
    """Return the network of a training with the blocks of its tail that predict further tokens as its last layers."""
    model, depth = training.model, training.model.predicted_tokens
    if not depth:
        return network
    topology = captured(training, topology)
    alone, plain = on_one_device(training), replace(training, model=replace(model, predicted_tokens=0))
    has_embedding = training.degrees.pipeline == 1
    outputs = priced_end(
        topology,
        reduce(add, [output_passes(alone)] * (depth + 1)),
        tail_parameters(plain, has_embedding=has_embedding),
    )
    tail = replace(
        end_block("output", training, sharded(training, topology, outputs)),
        activation_bytes=total(added(tail_activations(plain), further_logits(training))),
        working_bytes=network.tail.working_bytes,
    )
    block = sharded(training, topology, priced_layer(alone, topology, mtp_passes(alone), mtp_parameters(alone)))
    kept = {
        kind: size._replace(activations=size.activations + total(joined_activations(alone, kind=kind)))
        for kind, size in kept_by_kind(alone, model.further_kind).items()
    }
    embedding = Parameters() if has_embedding else embedding_copy(training)
    first = replace(block, parameters=block.parameters + embedding)  # all of them are in one stage
    layers = [
        replace(
            layer_of(training, model.further_kind, part, kept),
            name="MTP",
            is_mtp=True,
            cut_before=part is first,
            boundary_bytes=round(HALF * tokens(training) * model.hidden * (done + 1)),
        )
        for done, part in enumerate((first, *[block] * (depth - 1)), start=1)
    ]
    runs = [LayerRun(layer=layer, count=1) for layer in layers]
    return replace(network, runs=(*network.runs, *runs), tail=tail)
