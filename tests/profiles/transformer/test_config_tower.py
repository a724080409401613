"""Encoders of images with odd values: an error that says which, or an encoder with whole numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.profiles.transformer.config_tower import READ_TYPES, Encoder, encoder_of

PART_KEYS = (
    "depth", "num_hidden_layers", "hidden_size", "embed_dim", "num_heads", "num_attention_heads", "intermediate_size",
    "patch_size", "image_size", "temporal_patch_size", "in_channels", "spatial_merge_size", "out_hidden_size",
    "deepstack_visual_indexes", "fullatt_block_indexes", "window_size", "merge_kernel_size", "pixel_shuffle_ratio",
    "num_position_embeddings", "use_qk_norm", "attention_bias", "norm_type", "mlp_ratio", "vision_use_head",
)  # fmt: skip
WHOLE_KEYS = ("downsample_ratio", "spatial_merge_size", "mm_tokens_per_image", "multimodal_projector_bias")
ODD = st.sampled_from(
    [None, 0, -1, 1, 2, 14, 10**9, 10**30, 0.5, 1e-200, float("nan"), "12", True, [], [0], [0, 0], [2, 2], ["a"], {}]
)


@given(
    model_type=st.sampled_from(READ_TYPES),
    part=st.dictionaries(st.sampled_from(PART_KEYS), ODD, max_size=4),
    whole=st.dictionaries(st.sampled_from(WHOLE_KEYS), ODD, max_size=2),
)
def test_whatever_a_file_says_it_is_an_encoder_or_an_error(model_type, part, whole):
    config = {"model_type": model_type, "vision_config": part, **whole}
    found = encoder_of(as_fields(config, file="config.json"), hidden=64)
    assert found is not None
    if isinstance(found, InputError):
        assert "config.json" in str(found)
        return
    tower = found.tower
    assert tower.merged >= 1
    assert found.token_side >= 1
    assert tower.tokens >= 0
    assert all(isinstance(tap, int) for tap in tower.taps)
    assert tower.blocks.hidden % tower.blocks.heads == 0


@pytest.mark.parametrize("model_type", READ_TYPES)
def test_defaults_are_those_of_the_type(model_type):
    found = encoder_of(as_fields({"model_type": model_type, "vision_config": {}}, file="config.json"), hidden=64)
    assert isinstance(found, Encoder)
    assert found.tower.blocks.layers >= 12


@pytest.mark.parametrize(("config", "place"), [
    ({"model_type": "qwen3_vl", "vision_config": {"deepstack_visual_indexes": [1, "2"]}}, "deepstack_visual_indexes"),
    ({"model_type": "internvl", "vision_config": {}, "downsample_ratio": 0}, "downsample_ratio"),
    ({"model_type": "kimi_k25", "vision_config": {"merge_kernel_size": [0, 2]}}, "merge_kernel_size"),
])  # fmt: skip
def test_a_wrong_value_is_named(config, place):
    found = encoder_of(as_fields(config, file="config.json"), hidden=64)
    assert isinstance(found, InputError)
    assert place in str(found)


def test_others_have_none():
    assert encoder_of(as_fields({"model_type": "llama"}, file="config.json"), hidden=64) is None
    assert encoder_of(as_fields({"model_type": "step3p7", "vision_config": {}}, file="c.json"), hidden=64) is None
