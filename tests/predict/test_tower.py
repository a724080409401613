"""Encoders of images and sound: their work by formula; as layers of their own nothing is lost or counted twice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.model import FULL, NONE, Communication, Sizes
from evenflow.predict.activations import head_activations, head_working
from evenflow.predict.end_work import embedding_passes, head_passes
from evenflow.predict.held import total
from evenflow.predict.layer_parts import Addition
from evenflow.predict.layer_work import layer_passes, message_bytes
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import embedding_parameters, head_parameters
from evenflow.predict.separate_tower import with_separate_tower
from evenflow.predict.step.messages import message_times, planned_messages
from evenflow.predict.step_network import priced_network
from evenflow.predict.tower import is_split, patch_training
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import EVERY_BIAS, Biases, Modality, Stem, Tower, Transformer
from evenflow.predict.work import Operators, Spent
from evenflow.simulate import simulate
from tests.predict.trainings import LLAMA, TOPOLOGY

WIDTH, HEADS, BLOCKS, INNER, PATCH, MERGED = 256, 4, 5, 1024, 588, 4
BLOCK = Transformer(
    hidden=WIDTH, layers=BLOCKS, heads=HEADS, kv_heads=HEADS, head_dim=WIDTH // HEADS, ffn=INNER, vocabulary=1,
    gated=False, biases=EVERY_BIAS, name="encoder",
)  # fmt: skip
PROJECTOR = Addition(
    name="projector", products=((MERGED * WIDTH, MERGED * WIDTH), (MERGED * WIDTH, LLAMA.hidden)), numbers=2048
)
TOWER = Tower(
    blocks=BLOCK, before=(Stem(part=Addition(name="patches", products=((PATCH, WIDTH),), numbers=WIDTH)),),
    behind=PROJECTOR, merged=MERGED, inputs=2, patches=1024,
)  # fmt: skip
TAPPED = replace(TOWER, taps=(1, 3), tap=PROJECTOR)
POSITIONS = 1500
HEARD_WIDTH = 128
HEARD = Tower(
    modality=Modality.AUDIO,
    blocks=Transformer(
        hidden=HEARD_WIDTH, layers=3, heads=2, kv_heads=2, head_dim=HEARD_WIDTH // 2, ffn=512, vocabulary=1,
        gated=False, biases=replace(EVERY_BIAS, keys=False), positions=1, name="encoder",
    ),
    before=(
        Stem(part=Addition(name="convolution", products=((240, HEARD_WIDTH),), numbers=HEARD_WIDTH), times=2),
        Stem(
            part=Addition(name="convolution", products=((3 * HEARD_WIDTH, HEARD_WIDTH),), numbers=HEARD_WIDTH),
            fixed=POSITIONS * HEARD_WIDTH,
        ),
    ),
    behind=Addition(name="projector", products=((HEARD_WIDTH, LLAMA.hidden),)), merged=2, inputs=3, patches=100,
    further=50,
)  # fmt: skip
"""An encoder of sound, whose first convolution works twice for a frame, and whose clips end with silence."""


def training(*towers: Tower, **changes: object) -> Training:
    plain = Training(
        model=replace(LLAMA, towers=towers), degrees=Degrees(tensor=2, pipeline=4), microbatch=1, global_batch=16,
        sequence=2048,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    tower = replace(
        draw(st.sampled_from([TOWER, TAPPED])), inputs=draw(st.integers(1, 3)),
        patches=draw(st.sampled_from([64, 256])), frozen=draw(st.booleans()), further=draw(st.integers(0, 1)),
    )  # fmt: skip
    heard = replace(HEARD, frozen=tower.frozen, further=draw(st.sampled_from([0, 50])))
    towers = draw(st.sampled_from([(tower,), (heard,), (tower, heard)]))
    return training(
        *towers, microbatch=draw(st.sampled_from([1, 2])), global_batch=64,
        degrees=Degrees(
            tensor=draw(st.sampled_from([1, 2, 8])), pipeline=4, data=draw(st.sampled_from([1, 4])),
            context=draw(st.sampled_from([1, 2])), sequence_parallel=draw(st.booleans()),
        ),
        software=draw(st.sampled_from([Software(), Software(fused_elementwise=False, fused_attention=False)])),
    )  # fmt: skip


def flops(works: object) -> float:
    return sum(work.flops for work in works if isinstance(work, Operators))  # type: ignore[attr-defined]


def test_its_work_is_that_of_products_and_of_attention_over_whole_images():
    alone = training(TOWER, degrees=Degrees())
    patches = TOWER.inputs * TOWER.patches
    block = 2 * patches * (4 * WIDTH**2 + 2 * WIDTH * INNER) + 4 * TOWER.inputs * TOWER.patches**2 * WIDTH
    tokens = patches // MERGED
    projector = 2 * tokens * ((MERGED * WIDTH) ** 2 + MERGED * WIDTH * LLAMA.hidden)
    expected = 2 * patches * PATCH * WIDTH + BLOCKS * block + projector
    assert flops(head_passes(alone).forward) == expected
    assert model_flops(alone) - model_flops(training(degrees=Degrees())) == 3 * expected * 16


def test_the_work_over_a_sound_is_that_of_its_convolutions_and_of_silence_too():
    alone = training(HEARD, degrees=Degrees())
    width, frames = HEARD_WIDTH, HEARD.inputs * (HEARD.patches + HEARD.further)
    convolutions = 2 * frames * (2 * 240 * width + 3 * width**2)
    blocks = 3 * (2 * frames * (4 * width**2 + 2 * width * 512) + 4 * frames * (HEARD.patches + HEARD.further) * width)
    projector = 2 * HEARD.inputs * HEARD.patches // 2 * width * LLAMA.hidden
    assert flops(head_passes(alone).forward) == convolutions + blocks + projector
    both = flops(head_passes(training(TOWER, HEARD, degrees=Degrees())).forward)
    assert both == flops(head_passes(alone).forward) + flops(head_passes(training(TOWER, degrees=Degrees())).forward)


def test_positions_that_are_never_trained_are_held_without_gradients_or_optimizer():
    moved = training(replace(HEARD, before=HEARD.before[:1]))
    both, first = head_parameters(training(HEARD)), head_parameters(moved)
    assert both.frozen - first.frozen == POSITIONS * HEARD_WIDTH
    assert both.dense - first.dense == 3 * HEARD_WIDTH**2


def test_a_projection_to_keys_may_lack_the_bias_of_the_others():
    biased = replace(HEARD.blocks, biases=EVERY_BIAS)
    assert biased.biases == Biases(queries=True, out=True, mlp=True, norms=True)
    one, other = (
        head_parameters(training(replace(HEARD, blocks=blocks), degrees=Degrees())).dense
        for blocks in (biased, HEARD.blocks)
    )
    assert one - other == HEARD.blocks.layers * HEARD_WIDTH


def test_devices_that_share_layers_or_a_sequence():
    """Each of a tensor group has its part of every block, if heads divide; each of a context group has all images."""
    alone, both = training(TOWER, degrees=Degrees()), training(TOWER, degrees=Degrees(tensor=2, context=2))

    def attention(job: Training) -> float:
        of_attention = [work for work in head_passes(job).forward if getattr(work, "spent", None) is Spent.ATTENTION]
        return flops(of_attention)

    assert attention(both) == attention(alone) / 2
    odd = training(TOWER, degrees=Degrees(tensor=8))
    assert is_split(both, TOWER)
    assert not is_split(odd, TOWER)
    assert attention(odd) == attention(alone)


def test_a_frozen_encoder_has_a_forward_and_weights_and_its_projector_is_trained():
    plain, frozen = training(TOWER), training(replace(TOWER, frozen=True))
    before, after = head_passes(plain), head_passes(frozen)
    assert after.forward == before.forward
    assert 0 < len(after.backward) - len(embedding_passes(plain).backward) < len(before.backward) / 4
    projector, embedding = PROJECTOR.learned, embedding_parameters(plain).dense
    assert head_parameters(frozen).dense == projector + embedding
    assert head_parameters(frozen).frozen == head_parameters(plain).dense - projector - embedding
    assert total(head_working(frozen)) == 0
    without = training(replace(TOWER, frozen=True), model=replace(LLAMA, towers=(TOWER,), frozen_layers=2))
    assert head_parameters(without).dense == 0, "nothing before a frozen layer is trained"


def test_what_is_computed_again_keeps_the_inputs_of_blocks():
    plain, again, frozen = (
        training(replace(TOWER, **changes), degrees=Degrees())
        for changes in ({}, {"recomputed": True}, {"frozen": True})
    )
    patches = TOWER.inputs * TOWER.patches
    inputs, made = BLOCKS * 2 * patches * WIDTH, 2 * patches * 2 * WIDTH
    assert total(head_activations(again)) - total(head_activations(frozen)) == inputs + made
    assert total(head_working(again)) > total(head_working(plain))
    before, after = flops(head_passes(plain).backward), flops(head_passes(again).backward)
    blocks = BLOCKS * flops(layer_passes(patch_training(plain, TOWER), BLOCK.kinds[0]).forward)
    assert after == pytest.approx(before + blocks)


@given(trainings())
def test_in_the_first_stage_its_layers_cost_what_they_cost_in_the_head(job: Training):
    together = priced_network(job, TOPOLOGY).network
    separate = with_separate_tower(job, TOPOLOGY, together)
    more = sum(tower.blocks.layers for tower in job.model.towers) + 1
    assert separate.encoder_layers == more == separate.num_layers - together.num_layers
    own = separate.layers[:more]
    assert abs(sum(layer.forward_ns for layer in own) + separate.head.forward_ns - together.head.forward_ns) <= more
    assert abs(sum(layer.backward_ns for layer in own) + separate.head.backward_ns - together.head.backward_ns) <= more
    kept = sum(layer.modes[NONE].activation_bytes for layer in own) + separate.head.activation_bytes
    assert abs(kept - together.head.activation_bytes) <= more
    state = sum(layer.parameter_bytes for layer in own) + separate.head.parameter_bytes
    assert abs(state - together.head.parameter_bytes) <= more

    plan = even_plan(together, Sizes(num_ranks=4, num_chunks=1, num_microbatches=8), schedule="1f1b", recompute=NONE)
    first, *others = plan.layers[0]
    messages = planned_messages(job, TOPOLOGY, range(4))
    alike = Communication(latency_ns=messages.message_ns)
    before = simulate(together, plan, communication=alike)
    after = simulate(separate, replace(plan, layers=((first + more, *others),)), communication=messages)
    tapped = max(0, max(len(tower.taps) for tower in job.model.towers) - 1 - first)
    if not tapped:
        assert abs(before.makespan_ns - after.makespan_ns) <= 8 * 2 * more
    assert before.peak_memory_bytes[1:] == after.peak_memory_bytes[1:]
    assert abs(before.peak_memory_bytes[0] - after.peak_memory_bytes[0]) <= 8 * more


@given(trainings())
def test_messages_are_of_patches_then_of_tokens_with_what_taps_give(job: Training):
    network = with_separate_tower(job, TOPOLOGY, priced_network(job, TOPOLOGY).network)
    towers = job.model.towers
    patches = sum(
        2 * job.microbatch * tower.inputs * (tower.patches + tower.further) * tower.blocks.hidden for tower in towers
    )
    seen = towers[0]
    tap = 2 * job.microbatch * seen.inputs * seen.patches // MERGED * LLAMA.hidden
    taps = len(seen.taps)
    blocks = sum(tower.blocks.layers for tower in towers)
    sent = [sum(place < done for place in seen.taps) for done in range(blocks + 1)]
    assert network.boundaries is not None
    assert list(network.boundaries[: blocks + 1]) == [patches + count * tap for count in sent]
    assert network.layers[blocks + 1].cut_before, "the encoder may have ranks of its own"
    behind = network.boundaries[blocks + 1 :]
    assert list(behind[:taps]) == [message_bytes(job) + (taps - place) * tap for place in range(taps)]
    assert all(size is None for size in behind[taps:])


@given(trainings(), st.integers(1, 2**30))
def test_a_message_of_any_size_takes_what_the_topology_says(job: Training, size: int):
    messages, ranks = planned_messages(job, TOPOLOGY, range(4)), range(4)
    expected = int(message_times(job, TOPOLOGY, ranks, sent_bytes=[size] * 4).max())
    assert messages.message_of_ns(size) == pytest.approx(expected, rel=1e-3, abs=4)
    assert messages.message_ns == pytest.approx(int(message_times(job, TOPOLOGY, ranks).max()), abs=2)


def test_its_layers_recompute_as_others_do():
    network = with_separate_tower(training(TAPPED), TOPOLOGY, priced_network(training(TAPPED), TOPOLOGY).network)
    assert FULL in network.kinds
    block = network.layers[0]
    assert block.modes[FULL].activation_bytes < block.modes[NONE].activation_bytes
    assert block.modes[FULL].backward_ns > block.backward_ns


def test_a_model_without_one_stays_as_it_is():
    network = priced_network(training(), TOPOLOGY).network
    assert with_separate_tower(training(), TOPOLOGY, network) is network
