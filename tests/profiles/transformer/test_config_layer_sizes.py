"""Layers whose sizes differ, and what sees chosen or compressed tokens."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.predict.layer_parts import Indexer
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Norms, OwnSizes, Transformer
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import counted, read


def model(name: str, **changes: object) -> Transformer:
    return read({**SMALL_CONFIGS[name], **changes}).model


def training(found: Transformer) -> Training:
    return Training(model=found, degrees=Degrees(), microbatch=1, global_batch=2, sequence=16)


def test_a_list_of_equal_sizes_is_one_size() -> None:
    assert model("llama", intermediate_size=[112] * 4) == model("llama")


def test_a_layer_of_a_list_has_its_own_size() -> None:
    found = model("llama", intermediate_size=[112, 112, 90, 112])
    assert found.own == (None, None, OwnSizes(ffn=90), None)
    assert found.with_sizes_of(found.kind(2)) == replace(model("llama"), ffn=90)
    assert counted(model("llama")) - counted(found) == 3 * 64 * (112 - 90)


def test_layers_with_a_window_may_have_other_heads() -> None:
    found = model("qwen3", sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2)
    other = model(
        "qwen3", sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2, swa_num_key_value_heads=4
    )
    assert found.own == ()
    assert other.own == (OwnSizes(kv_heads=4), None) * 2
    assert counted(other) - counted(found) == 2 * 2 * 64 * 2 * 24


def test_tokens_of_images_may_have_experts_of_their_own() -> None:
    """They are held beside the others, with a router of their own, and do no work for tokens of text."""
    experts = model("ernie4_5_vl_moe").experts
    assert experts is not None
    assert (experts.ffn, experts.image_ffn, experts.shared_ffn, experts.dense_layers) == (40, 24, 80, 1)
    found = model("ernie4_5_vl_moe")
    without = replace(found, experts=replace(experts, image_ffn=0))
    assert counted(found) - counted(without) == 3 * (4 * 3 * 64 * 24 + 64 * 4)
    with_experts = found.kind(1)
    halves = [
        layer_parameters(replace(training(one), degrees=Degrees(data=2, expert=2)), with_experts).expert
        for one in (found, without)
    ]
    assert halves[0] - halves[1] == 2 * 3 * 64 * 24
    assert layer_passes(training(found), with_experts) == layer_passes(training(without), with_experts)


@pytest.mark.parametrize("widths", [40, [40], [40, 24, 8], [40, 0], [40, "a"]])
def test_widths_of_experts_for_text_and_images_are_a_pair(widths: object) -> None:
    config = SMALL_CONFIGS["ernie4_5_vl_moe"]
    assert isinstance(config["text_config"], dict)
    with pytest.raises(InputError, match=r"text_config\.moe_intermediate_size"):
        read({**config, "text_config": {**config["text_config"], "moe_intermediate_size": widths}})


def test_layers_that_window_what_they_write_alone_see_all_that_is_trained_on() -> None:
    found = model("unlimited_ocr")
    assert (found.window, found.unwindowed_layers) == (0, ())


def test_norms_of_queries_and_keys_are_over_what_the_file_says() -> None:
    assert model("molmo2").norms == Norms(queries=24, keys=24)
    assert model("molmo2, norms of all heads").norms == Norms(queries=8 * 24, keys=2 * 24)


def test_keys_of_earlier_layers_cost_nothing() -> None:
    found = model("gemma4_text, shared keys")
    assert [own.key_products if own else None for own in found.own] == [None, None, None, None, 0, 0]
    assert [own.ffn if own else None for own in found.own] == [None, None, None, None, 224, 224]


@pytest.mark.parametrize("layer", ["7", "first", "-1"])
def test_a_layer_that_is_not_there_is_refused(layer: str) -> None:
    with pytest.raises(InputError, match="per_layer_config must name layers from 0 to 3, each with an object"):
        model("llama", per_layer_config={layer: {"head_dim": 8}})


def test_what_a_layer_states_must_be_an_object() -> None:
    with pytest.raises(InputError, match="per_layer_config must name layers from 0 to 3"):
        model("llama", per_layer_config={"1": 8})

    with pytest.raises(InputError, match="per_layer_config must name layers from 0 to 3"):
        model("llama", per_layer_config=[1])
    with pytest.raises(InputError, match=r"per_layer_config\.1\.hidden_size must be the same for all layers, got 8"):
        model("llama", per_layer_config={"1": {"hidden_size": 8}})


def test_layers_that_choose_tokens_and_those_that_take_the_choice() -> None:
    found = model("glm_moe_dsa")
    assert (found.indexed_layers, found.indexer_layers) == ((0, 1, 2, 3), (0, 2))
    assert found.kind(1).indexed
    assert not found.kind(1).indexer
    assert model("deepseek_v32").indexer_layers == (0, 1, 2, 3)
    with pytest.raises(InputError, match="indexer_types must have an entry for each of the 4 layers, got 1"):
        model("glm_moe_dsa", indexer_types=["full"])


@pytest.mark.parametrize(
    ("changes", "choosing"),
    [
        ({"index_topk_pattern": "FSSF"}, (0, 3)),
        ({"index_topk_pattern": ["full", "shared", "full", "full"]}, (0, 2, 3)),
        ({"index_topk_freq": 2}, (0, 1, 3)),
        ({"index_topk_freq": 2, "index_skip_topk_offset": 1}, (0, 2)),
        ({"index_topk_freq": 2, "index_skip_topk_offset": 0}, (1, 3)),
        ({}, (0, 1, 2, 3)),
    ],
)
def test_patterns_and_rules_say_which_layers_choose(changes: dict[str, object], choosing: tuple[int, ...]) -> None:
    found = model("glm_moe_dsa", indexer_types=None, **changes)
    assert (found.indexed_layers, found.indexer_layers) == ((0, 1, 2, 3), choosing)


@pytest.mark.parametrize("pattern", ["FSF", "FSFX"])
def test_a_pattern_that_says_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="index_topk_pattern must have a letter for each of the 4 layers"):
        model("glm_moe_dsa", indexer_types=None, index_topk_pattern=pattern)


def test_keys_of_a_pool_are_scored_as_one_and_the_last_pool_is_always_seen() -> None:
    text = SMALL_CONFIGS["glm5_next"]["text_config"]
    assert isinstance(text, dict)
    found = read(text).model
    pooled = Indexer(heads=4, width=12, chosen=6 + 2, keyed=2, per_tokens=3, small=2 * 12 + 3 * 12)
    assert found.indexer == pooled
    assert (found.indexed_layers, found.indexer_layers) == ((1, 2), (1,))
    chosen_alone = read({**text, "index_kpool_always_select_tail": False}).model
    assert chosen_alone.indexer == replace(pooled, chosen=6)
    assert found.message_width == 3 * found.hidden


def test_a_residual_in_32_bits_and_what_a_router_gives_the_next_are_sent_on() -> None:
    found = model("zaya")
    assert found.message_width == 2 * 64 + 20
    assert (found.window, found.unwindowed_layers) == (16, (1, 2))
    assert found.experts is not None
    assert (found.experts.scores, found.experts.computed) == (5, 4 / 5)


def test_ratios_say_the_kinds_of_layers() -> None:
    listed = {key: value for key, value in SMALL_CONFIGS["deepseek_v4"].items() if key != "layer_types"}
    by_ratio = read({**listed, "compress_ratios": [0, 4, 128, 0]}).model
    assert by_ratio == model("deepseek_v4")
    with pytest.raises(InputError, match="compress_ratios must be one of 0, 4, 128, got 5"):
        read({**listed, "compress_ratios": [0, 5, 128, 0]})


def test_compressed_tokens_are_seen_as_one() -> None:
    found = model("deepseek_v4")
    assert [own.together if own else None for own in found.own] == [None, 2, 8, None]
