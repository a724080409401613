"""Blocks of attention and MLP whose weights several layers share: counted once, held by every rank, worked for each."""

from dataclasses import replace

import pytest

from evenflow.predict.activations import layer_activations, layer_working
from evenflow.predict.held import Held, total
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.memory import constant_bytes
from evenflow.predict.parameters import (
    Parameters,
    layer_parameters,
    model_parameters,
    shared_parameters,
    used_parameters,
)
from evenflow.predict.passes import shared_training
from evenflow.predict.prediction import predict
from evenflow.predict.state import state_bytes
from evenflow.predict.training import Degrees, Sharding
from evenflow.predict.transformer import DENSE, SharedBlocks
from evenflow.predict.work import Spent
from tests.predict.trainings import DEVICE, LLAMA, TOPOLOGY, training

BLOCK = replace(LLAMA, layers=1, attention_width=2 * LLAMA.hidden, vocabulary=1)
USES = (1, 4, 6)
SHARED = replace(LLAMA, carried=LLAMA.hidden, shared=SharedBlocks(block=BLOCK, count=1, layers=USES))


def shared(*, count=1, layers=USES):
    return replace(SHARED, shared=SharedBlocks(block=BLOCK, count=count, layers=layers))


def of_block(model):
    block = shared_training(training(model=model, degrees=Degrees()))
    assert block is not None
    return layer_parameters(block, DENSE)


@pytest.mark.parametrize("layers", [(0,), USES, tuple(range(8))])
@pytest.mark.parametrize("count", [1, 2])
def test_their_parameters_count_once_however_many_layers_use_them(layers, count):
    model = shared(count=count, layers=layers)
    assert model_parameters(model) == model_parameters(LLAMA) + count * round(of_block(model).dense)


def test_attention_of_a_block_reads_twice_the_hidden_size():
    """Queries, keys and values of 1024 + 512 + 512 numbers, each from 1024 more."""
    plain = layer_parameters(training(degrees=Degrees()), DENSE)
    assert of_block(SHARED).dense - plain.dense == LLAMA.hidden * (1024 + 512 + 512)


def test_a_layer_does_the_work_of_its_block_too():
    job = training(model=SHARED)
    kinds, block = SHARED.kinds, shared_training(job)
    assert block is not None
    own, of_shared = layer_passes(job, kinds[0]), layer_passes(block, DENSE)
    assert [kind.shared for kind in kinds] == [layer in USES for layer in range(8)]
    assert layer_passes(job, kinds[1]) == of_shared + own
    assert layer_parameters(job, kinds[1]) == layer_parameters(job, kinds[0])
    assert used_parameters(job, kinds[1]) == layer_parameters(job, kinds[0]) + layer_parameters(block, DENSE)


def test_a_layer_keeps_what_its_block_keeps_and_its_own_input_is_inside():
    job = training(model=SHARED)
    first, using = SHARED.kinds[:2]
    block = shared_training(job)
    assert block is not None
    plain, more = layer_activations(job, first, kind="none"), layer_activations(job, using, kind="none")
    embedding = 2 * 2048 // 2 * SHARED.carried
    assert total(more) == total(plain) + total(layer_activations(block, DENSE, kind="none")) + embedding
    both = 2 * 2048 // 2 * LLAMA.hidden + embedding
    assert layer_activations(job, using, kind="full") == {Held.NORMS: both}
    assert total(layer_working(job, using, kind="full")) > total(layer_working(job, first, kind="full"))


def test_every_rank_holds_them_once():
    job, plain = training(model=SHARED), training(model=replace(SHARED, shared=None))
    more = constant_bytes(job, DEVICE) - constant_bytes(plain, DEVICE)
    assert more == state_bytes(job, shared_parameters(job)) > 0
    prediction = predict(job, TOPOLOGY)
    for rank, memory in enumerate(prediction.memory):
        assert memory.allocated_bytes == prediction.simulation.peak_memory_bytes[rank]
    alone = training(model=SHARED, degrees=Degrees(tensor=2))
    assert shared_parameters(alone) == shared_parameters(job)


def test_ranks_add_up_their_gradients_and_the_optimizer_has_them_on_each():
    once, twice = (predict(training(model=shared(count=count)), TOPOLOGY) for count in (1, 2))

    def spent(prediction, name):
        return next(part.exposed_ns for part in prediction.parts if part.name == name)

    assert spent(twice, Spent.DATA) > spent(once, Spent.DATA)
    assert spent(twice, "optimizer") > spent(once, "optimizer")
    assert twice.simulation.timeline.makespan_ns == once.simulation.timeline.makespan_ns
    one_rank = [predict(training(model=shared(count=count), degrees=Degrees(tensor=2)), TOPOLOGY) for count in (1, 2)]
    assert spent(one_rank[0], Spent.DATA) == spent(one_rank[1], Spent.DATA)


def test_every_use_gathers_them_where_parameters_are_sharded():
    degrees = Degrees(data=4, sharding=Sharding.PARAMETERS)
    job = training(model=SHARED, degrees=degrees)
    unshared = replace(job, model=replace(SHARED, shared=None))
    with_block, without = predict(job, TOPOLOGY).priced.layers[1], predict(unshared, TOPOLOGY).priced.layers[1]
    every = (with_block.forward, without.forward)
    gathers = [part.exposed.get(Spent.DATA, 0) + part.hidden.get(Spent.DATA, 0) for part in every]
    assert gathers[0] > gathers[1] > 0


def test_they_are_trained_unless_every_layer_that_uses_them_is_frozen():
    whole = shared_parameters(training(model=SHARED))
    some = replace(SHARED, frozen_layers=5)
    every = replace(SHARED, frozen_layers=7)
    assert shared_parameters(training(model=some)) == whole
    assert shared_parameters(training(model=every)) == Parameters(frozen=whole.dense)
