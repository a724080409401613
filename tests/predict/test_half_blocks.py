"""Blocks as two layers: together they cost what the block costs, and frameworks of whole blocks see the block."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, SELECT, Communication, Sizes, whole_blocks_of
from evenflow.predict.half_blocks import has_halves, with_half_blocks
from evenflow.predict.layer_parts import Addition, ImageAttention, Loop, StateMixer
from evenflow.predict.passes import image_bytes
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.predict.separate_tower import with_separate_tower
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import EVERY_BIAS, Experts, LayersWithState, Norms
from evenflow.simulate import simulate
from tests.predict.test_tower import TAPPED
from tests.predict.trainings import LLAMA, TOPOLOGY, training

MIXER = StateMixer(name="mamba-2", heads=8, key_dim=128, value_dim=64, into=4352, out=2048, channels=2304, kernel=4)
MODELS = (
    LLAMA,
    replace(LLAMA, gated=False, biases=EVERY_BIAS, dropout=True),
    replace(LLAMA, experts=Experts(count=8, active=2, ffn=512, shared_ffn=512, dense_layers=2)),
    replace(LLAMA, window=512, unwindowed_layers=(3, 7), norms=Norms(of_layer=4, queries=128, keys=128)),
    replace(LLAMA, states=LayersWithState(mixer=MIXER, layers=(0, 1, 2, 4, 5, 6))),
    replace(LLAMA, additions=(Addition(name="scale", numbers=1024, small=1024),), frozen_layers=3),
    replace(LLAMA, images=ImageAttention(layers=(1, 5), width=512, tokens=300)),
    replace(LLAMA, loops=(Loop(first=2, end=5, passes=3, unkept=1),)),
)


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    return Training(
        model=draw(st.sampled_from(MODELS)),
        degrees=Degrees(
            tensor=draw(st.sampled_from([1, 2])), pipeline=4, data=draw(st.sampled_from([1, 4])),
            context=draw(st.sampled_from([1, 2])), sequence_parallel=draw(st.booleans()),
        ),
        microbatch=draw(st.sampled_from([1, 2])), global_batch=64, sequence=2048,
        recompute_modules=draw(st.sampled_from([("core_attn",), ("core_attn", "layernorm", "mlp")])),
        software=draw(
            st.sampled_from([Software(), Software(fused_elementwise=False, fused_attention=False)])
        ),
    )  # fmt: skip


@given(trainings())
def test_two_halves_cost_what_the_block_costs(training):
    blocks = priced_network(training, TOPOLOGY).network
    halves = with_half_blocks(training, TOPOLOGY, blocks)
    assert halves.num_layers == 2 * blocks.num_layers
    assert halves.continuing_layers == blocks.num_layers
    for block, first, second in zip(blocks.layers, halves.layers[::2], halves.layers[1::2], strict=True):
        assert (first.continues_block, second.continues_block) == (False, True)
        assert abs(first.forward_ns + second.forward_ns - block.forward_ns) <= 1
        assert abs(first.parameter_bytes + second.parameter_bytes - block.parameter_bytes) <= 2
        for kind in (NONE, SELECT):
            one, two, both = (layer.modes[kind] for layer in (first, second, block))
            assert abs(one.backward_ns + two.backward_ns - both.backward_ns) <= 1
            assert abs(one.activation_bytes + two.activation_bytes - both.activation_bytes) <= 4
        again = [layer.modes[FULL] for layer in (first, second, block)]
        assert abs(again[0].backward_ns + again[1].backward_ns - again[2].backward_ns) <= 1
        assert again[0].activation_bytes == again[2].activation_bytes, "each keeps an input of its own"
        beside = image_bytes(training) if "images" in block.name else 0  # which the first half alone reads
        assert again[1].activation_bytes == again[2].activation_bytes - beside


@given(trainings())
def test_frameworks_of_whole_blocks_run_the_same_step(training):
    blocks = priced_network(training, TOPOLOGY).network
    whole = whole_blocks_of(with_half_blocks(training, TOPOLOGY, blocks))
    assert whole is not None
    assert whole.ends.tolist() == list(range(0, 2 * blocks.num_layers + 1, 2))
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=8)
    plan = even_plan(blocks, sizes, schedule="interleaved", recompute=NONE)
    before, after = simulate(blocks, plan), simulate(whole.network, plan)
    assert abs(before.makespan_ns - after.makespan_ns) <= 2 * 8 * blocks.num_layers
    working = max(layer.modes[NONE].working_bytes for layer in (*blocks.layers, *whole.network.layers))
    pairs = zip(before.peak_memory_bytes, after.peak_memory_bytes, strict=True)
    assert all(abs(after - before) <= working + 4 * blocks.num_layers * 8 for before, after in pairs)


def test_an_encoder_and_further_tokens_stay_as_they_are():
    whole = training(
        model=replace(LLAMA, towers=(replace(TAPPED, patches=256),), predicted_tokens=1, streams=1), sequence=2048
    )
    network = with_separate_tower(
        whole, TOPOLOGY, with_separate_mtp(whole, TOPOLOGY, priced_network(whole, TOPOLOGY).network)
    )
    halves = with_half_blocks(whole, TOPOLOGY, network)
    assert halves.num_layers == network.num_layers + LLAMA.layers
    first = network.encoder_layers
    assert halves.layers[:first] == network.layers[:first]
    assert halves.layers[-1] == network.layers[-1]
    assert halves.layers[first].cut_before, "the encoder may have ranks of its own"
    assert halves.layers[first + 1].cut_before
    sent = [layer.boundary_bytes for layer in network.layers[first:-1] for _half in range(2)]
    assert [layer.boundary_bytes for layer in halves.layers[first:-1]] == sent
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    plan = even_plan(halves.without_rules(), sizes, schedule="1f1b", recompute=NONE)
    assert simulate(halves, plan, communication=Communication(latency_ns=1)).makespan_ns > 0


def test_layers_of_one_part_stay_whole():
    mixed = replace(
        LLAMA, states=LayersWithState(mixer=MIXER, layers=(0, 2), attention_layers=(4,), bare_layers=(0, 2)), layers=6
    )
    network = priced_network(training(model=mixed), TOPOLOGY).network
    halves = with_half_blocks(training(model=mixed), TOPOLOGY, network)
    assert [layer.continues_block for layer in halves.layers] == [False, False, False, False, False, True, False]
    assert [layer.name for layer in halves.layers[4:6]] == ["attention", "MLP"]


@pytest.mark.parametrize(
    "model",
    [
        replace(LLAMA, norms=Norms(of_layer=1)),
        replace(LLAMA, repeats=2),
        replace(LLAMA, states=LayersWithState(mixer=MIXER, layers=tuple(range(8)), bare_layers=tuple(range(8)))),
    ],
    ids=["parallel", "twice", "bare"],
)
def test_a_model_without_such_blocks_is_refused(model):
    assert not any(has_halves(model, kind) for kind in model.kinds)
    network = priced_network(training(model=model), TOPOLOGY).network
    with pytest.raises(InputError, match="layers of small must have blocks of attention and then an MLP or experts"):
        with_half_blocks(training(model=model), TOPOLOGY, network)
