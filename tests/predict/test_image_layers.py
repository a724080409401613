"""Layers whose attention sees images beside the sequence: their work, what they keep, and what stages send on."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.predict.activations import boundary_bytes, layer_activations
from evenflow.predict.held import Held, total
from evenflow.predict.layer_parts import Addition, ImageAttention
from evenflow.predict.layer_work import layer_passes, message_bytes
from evenflow.predict.limits.checks import check_training
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Software
from evenflow.predict.transformer import Tower
from evenflow.predict.work import Operators, Spent
from tests.predict.trainings import DEVICE, LLAMA, TOPOLOGY, training

WIDTH, TOKENS = 512, 300
SEES = replace(LLAMA, images=ImageAttention(layers=(1, 5), width=WIDTH, tokens=TOKENS))
ALONE = Degrees()
ITEM = 2
"""Bytes of a number."""


def flops(job, kind, spent):
    works = layer_passes(job, kind).forward
    return sum(work.flops for work in works if isinstance(work, Operators) and work.spent is spent)


def test_queries_are_of_the_sequence_and_keys_and_values_of_images():
    job = training(model=SEES, degrees=ALONE)
    usual, seeing = SEES.kinds[:2]
    assert [kind.sees_images for kind in SEES.kinds] == [layer in (1, 5) for layer in range(8)]
    of_keys = 2 * 1024  # of four heads of 128, keys and values: 1024 numbers
    less = of_keys * 2048 * LLAMA.hidden - of_keys * TOKENS * WIDTH
    assert flops(job, usual, Spent.PRODUCTS) - flops(job, seeing, Spent.PRODUCTS) == less
    assert flops(job, seeing, Spent.ATTENTION) == 2 * 2048 * TOKENS * 2 * LLAMA.hidden  # no mask skips any


def test_keys_and_values_are_projected_from_tokens_of_images():
    job = training(model=SEES, degrees=ALONE)
    usual, seeing = (layer_parameters(job, kind).dense for kind in SEES.kinds[:2])
    assert usual - seeing == 1024 * (LLAMA.hidden - WIDTH)


def test_a_layer_keeps_keys_and_values_of_images_and_their_tokens():
    job = training(model=SEES, degrees=ALONE)
    usual, seeing = (total(layer_activations(job, kind, kind="none")) for kind in SEES.kinds[:2])
    assert usual - seeing == ITEM * (1024 * (2048 - TOKENS) - TOKENS * WIDTH)
    full = layer_activations(job, SEES.kinds[1], kind="full")
    assert full == {Held.NORMS: ITEM * 2048 * LLAMA.hidden, Held.ATTENTION: ITEM * TOKENS * WIDTH}
    scores = training(model=SEES, degrees=ALONE, software=Software(fused_attention=False))
    kept = [layer_activations(scores, kind, kind="none")[Held.ATTENTION] for kind in SEES.kinds[:2]]
    assert kept[0] - kept[1] > ITEM * LLAMA.heads * 2048 * (2048 - TOKENS) - ITEM * TOKENS * WIDTH


def test_stages_send_the_tokens_of_images_on():
    job, without = training(model=SEES), training()
    assert message_bytes(job) - message_bytes(without) == ITEM * TOKENS * WIDTH
    assert boundary_bytes(job) - boundary_bytes(without) == ITEM * TOKENS * WIDTH
    assert message_bytes(training(model=SEES, microbatch=2)) == 2 * message_bytes(job)


def test_memory_of_ranks_adds_up():
    prediction = predict(training(model=SEES), TOPOLOGY)
    for rank, memory in enumerate(prediction.memory):
        assert memory.allocated_bytes == prediction.simulation.peak_memory_bytes[rank]


def test_it_must_be_said_which_images_there_are():
    unknown = replace(SEES, images=replace(SEES.images, tokens=0))
    with pytest.raises(
        InputError, match="images must be given: some layers of the model see images beside the sequence; say"
    ):
        check_training(training(model=unknown), DEVICE)
    check_training(training(model=SEES), DEVICE)


def test_tokens_beside_a_sequence_need_no_room_in_it():
    blocks = replace(LLAMA, layers=2, vocabulary=1)
    tower = Tower(blocks=blocks, before=(), behind=Addition(name="projector"), merged=1, inputs=1, patches=5000)
    with pytest.raises(InputError, match="must be at least the 5,000 tokens of its images and sounds"):
        check_training(training(model=replace(SEES, towers=(tower,))), DEVICE)
    check_training(training(model=replace(SEES, towers=(replace(tower, is_beside=True),))), DEVICE)
