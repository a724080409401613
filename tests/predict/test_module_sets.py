"""Sets of modules as recompute kinds: what they cost, and which are worth planning with."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, SELECT, HostLink, ordered_kinds
from evenflow.predict.module_sets import best_module_sets, corners, with_moved_sets
from evenflow.predict.separate_tower import with_separate_tower
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import (
    MOVED_MODULES,
    MOVES,
    RECOMPUTE_MODULES,
    is_possible_set,
    set_kind,
    with_inner,
)
from evenflow.predict.transformer import Experts, LatentAttention
from evenflow.targets.megatron_family.flags import ways_with_moves
from tests.predict.test_tower import TOWER
from tests.predict.trainings import LLAMA, TOPOLOGY, training

EXPERTS = Experts(count=8, active=2, ffn=512, shared_ffn=512, dense_layers=2)
MODELS = (LLAMA, replace(LLAMA, experts=EXPERTS))
COSTS = st.dictionaries(
    st.sampled_from([(), ("a",), ("b",), ("a", "b"), ("c",), ("full",)]),
    st.tuples(st.integers(0, 20), st.integers(0, 20).map(float)),
    min_size=1,
)


@given(COSTS)
def test_corners_are_what_no_mixture_of_others_beats(costs):
    found = corners(costs)
    points = [costs[modules] for modules in found]
    assert points == sorted(points)
    assert all(later[1] < earlier[1] for earlier, later in pairwise(points))
    for kept, time in costs.values():
        for price in (0.001, 0.3, 1.0, 3.0, 1000.0):
            assert min(own + price * needed for needed, own in points) <= time + price * kept + 1e-9
    for corner in found:
        others = [costs[other] for other in found if other != corner]
        kept, time = costs[corner]
        for left in others:
            for right in others:
                if left[0] < kept < right[0]:
                    share = (kept - left[0]) / (right[0] - left[0])
                    assert time < left[1] + share * (right[1] - left[1]) + 1e-9


@pytest.mark.parametrize("model", MODELS, ids=["dense", "experts"])
@pytest.mark.parametrize("modules", [("layernorm",), ("layernorm", "mlp"), ("moe",), ("layernorm", "moe_act")])
def test_a_set_costs_what_select_costs_with_it(model, modules):
    as_select = priced_network(training(model=model, recompute_modules=modules), TOPOLOGY).network
    as_set = priced_network(training(model=model, recompute_sets=(modules, ("core_attn",))), TOPOLOGY).network
    assert as_set.kinds == ordered_kinds({FULL, set_kind(modules), "core_attn", NONE})
    for one, other in zip(as_select.layers, as_set.layers, strict=True):
        assert other.modes[set_kind(modules)] == one.modes[SELECT]
        assert other.modes[NONE] == one.modes[NONE]
        assert other.modes[FULL] == one.modes[FULL]


def test_what_is_inside_a_module_goes_with_it():
    assert with_inner(["moe"]) == {"moe", "moe_act", "shared_experts"}
    model = MODELS[1]
    alone, both = (
        priced_network(training(model=model, recompute_modules=modules), TOPOLOGY).network.layers[-1].modes[SELECT]
        for modules in (("moe",), ("moe", "moe_act"))
    )
    assert alone == both


@pytest.mark.parametrize("model", MODELS, ids=["dense", "experts"])
def test_the_best_sets_are_found_and_every_layer_offers_them(model):
    whole = training(model=model)
    sets = best_module_sets(whole, TOPOLOGY)
    assert sets
    assert all(set(modules) <= set(RECOMPUTE_MODULES) for modules in sets)
    network = priced_network(replace(whole, recompute_sets=sets), TOPOLOGY).network
    assert set(network.kinds) == {NONE, FULL, *map(set_kind, sets)}
    for modules in sets:
        saves = [
            layer.modes[set_kind(modules)].activation_bytes < layer.modes[NONE].activation_bytes
            for layer in network.layers
        ]
        assert any(saves)
    frozen = training(model=replace(model, frozen_layers=model.layers - 1))
    assert best_module_sets(frozen, TOPOLOGY)


def test_an_encoder_as_layers_offers_them_too():
    whole = training(model=replace(LLAMA, towers=(replace(TOWER, patches=256),)), recompute_sets=(("layernorm",),))
    network = with_separate_tower(whole, TOPOLOGY, priced_network(whole, TOPOLOGY).network)
    assert set(network.kinds) == {NONE, "layernorm", FULL}


LATENT = replace(
    LLAMA, latent=LatentAttention(query_rank=96, key_value_rank=64, plain_dim=32, rotary_dim=16, value_dim=32)
)
AGAIN = st.sets(st.sampled_from(["layernorm", "mlp", "moe", "moe_act", "core_attn"]))
MOVED = st.sets(st.sampled_from([f"{MOVES}{module}" for module in MOVED_MODULES]), min_size=1)
LINK = HostLink(bytes_per_s=10**10)


@pytest.mark.parametrize("model", [*MODELS, replace(LATENT, experts=EXPERTS)], ids=["dense", "experts", "latent"])
@given(again=AGAIN, moved=MOVED)
def test_what_moves_is_kept_elsewhere_and_costs_no_work(model, again, moved):
    modules = (*sorted(again), *sorted(moved))
    if not is_possible_set(modules):
        return
    here, there = tuple(sorted(again)) or ("core_attn",), set_kind(modules)
    network = priced_network(training(model=model, recompute_sets=(here, modules), host_link=LINK), TOPOLOGY).network
    for layer in network.layers:
        plain, mode = layer.modes[set_kind(here) if again else NONE], layer.modes[there]
        assert mode.activation_bytes + mode.offloaded_bytes == pytest.approx(plain.activation_bytes, abs=8)
        assert mode.backward_ns == plain.backward_ns
        assert mode.working_bytes == plain.working_bytes


def test_what_each_module_moves():
    tokens, hidden = 1024, LLAMA.hidden
    alone = training(model=replace(LLAMA, experts=EXPERTS), sequence=tokens, microbatch=1)
    every = tuple((f"{MOVES}{module}",) for module in MOVED_MODULES if module != "attn_proj")
    network = priced_network(replace(alone, recompute_sets=every, host_link=LINK), TOPOLOGY).network
    layer = network.layers[-1]
    moved = {kind.removeprefix(MOVES): mode.offloaded_bytes for kind, mode in layer.modes.items()}
    keys = 2 * LLAMA.kv_heads * LLAMA.head_dim
    assert moved["attn_norm"] == 0  # the norm is inside the product
    ways = alone.degrees.tensor
    assert moved["qkv_linear"] == 2 * 2 * tokens * hidden // ways
    assert moved["core_attn"] == 2 * tokens * (LLAMA.heads * LLAMA.head_dim + keys) // ways
    assert moved["mlp_norm"] == 2 * tokens * hidden // ways
    assert moved["moe_act"] == moved["expert_fc1"] * 2 * EXPERTS.ffn // hidden // ways
    assert network.layers[0].modes["offload_expert_fc1"].offloaded_bytes == 0  # a dense layer


@pytest.mark.parametrize("model", [*MODELS, replace(LATENT, experts=EXPERTS)], ids=["dense", "experts", "latent"])
def test_steps_move_more_and_more(model):
    whole = training(model=model)
    known = [kind for way in ways_with_moves() for kind in way.kinds]
    sets = with_moved_sets(whole, [("layernorm",), ("moe_act", "layernorm")], known)
    assert all(map(is_possible_set, sets))
    network = priced_network(replace(whole, recompute_sets=sets, host_link=LINK), TOPOLOGY).network
    layer = network.layers[-1]
    for again in ((), ("layernorm",), ("moe_act", "layernorm")):
        own = [modules for modules in sets if tuple(m for m in modules if not m.startswith(MOVES)) == again]
        sizes = [layer.modes[set_kind(modules)].offloaded_bytes for modules in own]
        assert sizes == sorted(set(sizes))
        assert len(sizes) > 2
        for less, more in pairwise(own):
            assert set(less) <= set(more)


@pytest.mark.parametrize("modules", [("offload_attn_proj",), ("moe", "offload_moe_act"), ("moe", "offload_expert_fc1")])
def test_sets_that_cannot_be(modules):
    assert not is_possible_set(modules)
    assert is_possible_set((*modules[:-1], "offload_qkv_linear"))


def test_steps_are_those_that_are_known() -> None:
    pair = ("offload_core_attn", "offload_attn_proj")
    sets = with_moved_sets(
        training(), [("layernorm",)], ["full", "layernorm", set_kind(pair), "layernorm+offload_moe_act"]
    )
    assert sets == (("layernorm",), pair)  # a dense layer has no moe_act


def test_what_an_activation_reads_moves_while_its_result_is_computed_again() -> None:
    """As Megatron-LM's own tests have it, `offload_modules: moe_act` beside `recompute_modules: moe_act`."""
    sets = (("moe_act",), ("offload_moe_act",), ("moe_act", "offload_moe_act"))
    assert all(map(is_possible_set, sets))
    whole = training(model=replace(LLAMA, experts=EXPERTS), recompute_sets=sets, host_link=LINK)
    again, moved, both = (
        priced_network(whole, TOPOLOGY).network.layers[-1].modes[set_kind(modules)] for modules in sets
    )
    assert both.offloaded_bytes == moved.offloaded_bytes > 0
    assert both.activation_bytes == again.activation_bytes - moved.offloaded_bytes
    assert both.activation_bytes < moved.activation_bytes
