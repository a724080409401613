"""Encoders of images and sound with odd values: an error that says which, or an encoder with whole numbers."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.predict.parameters import model_parameters
from evenflow.predict.transformer import Modality
from evenflow.profiles.transformer.config_audio import AudioEncoder
from evenflow.profiles.transformer.config_encoders import PARTS, READ_TYPES, encoders_of
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.profiles.transformer.config_images import ImageEncoder
from tests.paths import ROOT

IMAGE, AUDIO = Modality.IMAGE, Modality.AUDIO
PART_KEYS = {
    IMAGE: (
        "depth", "num_hidden_layers", "hidden_size", "embed_dim", "num_heads", "num_attention_heads",
        "intermediate_size", "patch_size", "image_size", "temporal_patch_size", "in_channels", "spatial_merge_size",
        "out_hidden_size", "deepstack_visual_indexes", "fullatt_block_indexes", "window_size", "merge_kernel_size",
        "pixel_shuffle_ratio", "num_position_embeddings", "use_qk_norm", "attention_bias", "norm_type", "mlp_ratio",
        "vision_use_head", "vt_hidden_size", "vt_num_attention_heads", "qkv_hidden_size", "init_pos_emb_height",
    ),
    AUDIO: (
        "encoder_layers", "num_hidden_layers", "d_model", "hidden_size", "encoder_attention_heads",
        "num_attention_heads", "encoder_ffn_dim", "intermediate_size", "num_mel_bins", "max_source_positions",
        "n_window", "n_window_infer", "output_dim", "downsample_hidden_size", "subsampling_conv_channels",
        "conv_kernel_size", "attention_chunk_size", "attention_context_left", "attention_context_right",
    ),
}  # fmt: skip
WHOLE_KEYS = (
    "downsample_ratio", "spatial_merge_size", "mm_tokens_per_image", "multimodal_projector_bias", "projector_bias",
    "stack_factor", "hidden_size", "projector_act", "projector_ln_mid",
)  # fmt: skip
ODD = st.sampled_from(
    [None, 0, -1, 1, 2, 14, 10**9, 10**30, 0.5, 1e-200, float("nan"), "12", True, [], [0], [0, 0], [2, 2], ["a"], {}]
)
READ = [(modality, model_type) for modality in Modality for model_type in READ_TYPES[modality]]


def encoder(config, modality, *, hidden=64):
    return encoders_of(as_fields(config, file="config.json"), hidden=hidden).get(modality)


@given(data=st.data(), read=st.sampled_from(READ), whole=st.dictionaries(st.sampled_from(WHOLE_KEYS), ODD, max_size=2))
def test_whatever_a_file_says_it_is_an_encoder_or_an_error(data, read, whole):
    modality, model_type = read
    part = data.draw(st.dictionaries(st.sampled_from(PART_KEYS[modality]), ODD, max_size=4))
    found = encoder({"model_type": model_type, PARTS[modality]: part, **whole}, modality)
    assert found is not None
    if isinstance(found, InputError):
        assert "config.json" in str(found)
        return
    tower = found.tower
    assert tower.modality is modality
    assert tower.merged >= 1
    assert tower.tokens >= 0
    assert all(isinstance(tap, int) for tap in tower.taps)
    assert all(stem.times >= 1 for stem in tower.before)
    assert (tower.blocks.head_dim or 0) >= 1
    if isinstance(found, ImageEncoder):
        assert found.token_side >= 1
    else:
        assert found.of_clips(2, seconds=7).inputs >= 2


@pytest.mark.parametrize(("modality", "model_type"), READ)
def test_defaults_are_those_of_the_type(modality, model_type):
    found = encoder({"model_type": model_type, PARTS[modality]: {}}, modality)
    assert isinstance(found, ImageEncoder | AudioEncoder)
    assert found.tower.blocks.layers >= 4


@pytest.mark.parametrize(("config", "modality", "place"), [
    (
        {"model_type": "qwen3_vl", "vision_config": {"deepstack_visual_indexes": [1, "2"]}}, IMAGE,
        "vision_config.deepstack_visual_indexes",
    ),
    ({"model_type": "internvl", "vision_config": {}, "downsample_ratio": 0}, IMAGE, "downsample_ratio"),
    (
        {"model_type": "kimi_k25", "vision_config": {"merge_kernel_size": [0, 2]}}, IMAGE,
        "vision_config.merge_kernel_size",
    ),
    ({"model_type": "voxtral", "audio_config": {"intermediate_size": 5000}}, AUDIO, "audio_config.intermediate_size"),
    ({"model_type": "voxtral", "audio_config": {"encoder_layers": "x"}}, AUDIO, "audio_config.encoder_layers"),
    (
        {"model_type": "gemma4", "audio_config": {"subsampling_conv_channels": [128]}}, AUDIO,
        "audio_config.subsampling_conv_channels",
    ),
    ({"model_type": "ultravox", "audio_config": {}, "stack_factor": 0}, AUDIO, "stack_factor"),
    ({"model_type": "ultravox", "audio_config": {}, "projector_act": 3}, AUDIO, "projector_act"),
    ({"model_type": "audioflamingo3", "audio_config": {}, "projector_bias": "no"}, AUDIO, "projector_bias"),
])  # fmt: skip
def test_a_wrong_value_is_named(config, modality, place):
    found = encoder(config, modality)
    assert isinstance(found, InputError)
    assert f"config.json: {place}" in str(found)


def test_the_encoder_of_kimi_k3_has_as_many_parameters_as_its_checkpoint():
    config = json.loads((ROOT / "examples" / "configs" / "kimi_k3.json").read_text())
    described = transformer_of_config(as_fields(config, file="config.json"), name="k3")
    images = described.encoders[IMAGE]
    assert isinstance(images, ImageEncoder)
    both = replace(described.model, towers=(images.of_images(1, side=448),))
    assert model_parameters(both) - model_parameters(described.model) == 447_358_976


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"qkv_hidden_size": 1537}, "vision_config.qkv_hidden_size must be a multiple of the heads"),
        ({"vt_hidden_size": "x"}, "vision_config.vt_hidden_size"),
    ],
)
def test_sizes_of_the_encoder_of_kimi_k3_are_checked(sizes, message):
    found = encoder({"model_type": "kimi_k3", "vision_config": {"vt_num_attention_heads": 12, **sizes}}, IMAGE)
    assert isinstance(found, InputError)
    assert message in str(found)


def test_others_have_none():
    assert not encoders_of(as_fields({"model_type": "llama"}, file="config.json"), hidden=64)
    assert not encoders_of(as_fields({"model_type": "step3p7", "vision_config": {}}, file="c.json"), hidden=64)
    gemma3n = encoders_of(as_fields({"model_type": "gemma3n", "vision_config": {}}, file="c.json"), hidden=64)
    assert IMAGE not in gemma3n


def test_an_encoder_that_is_only_named_elsewhere_is_missed():
    found = encoder({"model_type": "ultravox", "audio_model_id": "openai/whisper-small"}, AUDIO)
    assert "config.json must have the field 'audio_config'" in str(found)


def test_a_model_may_have_both():
    config = {"model_type": "qwen2_5_omni_thinker", "vision_config": {}, "audio_config": {"d_model": 1281}}
    found = encoders_of(as_fields(config, file="config.json"), hidden=64)
    assert isinstance(found[IMAGE], ImageEncoder)
    assert "audio_config.num_heads must divide the hidden size (1281)" in str(found[AUDIO])


@pytest.mark.parametrize(
    ("model_type", "seconds", "inputs", "frames", "silent", "tokens"),
    [
        ("qwen2_audio", 30, 2, 1500, 0, 2 * 750),
        ("qwen2_audio", 10, 2, 500, 1000, 2 * 250),
        ("voxtral", 10, 2, 1500, 0, 2 * 375),
        ("voxtral", 45, 4, 1500, 0, 4 * 375),
        ("audioflamingo3", 45, 4, 1125, 375, 4 * 562),
        ("ultravox", 30, 2, 1500, 0, 2 * 187),
        ("qwen2_5_omni_thinker", 7, 2, 350, 0, 2 * 175),
        ("qwen3_omni_moe_thinker", 7, 2, 91, 0, 2 * 91),
        ("gemma4", 7, 2, 175, 0, 2 * 175),
        ("phi4_multimodal", 7, 2, 88, 0, 2 * 88),
        ("gemma3n", 7, 2, 175, 0, 2 * 43),
    ],
)
def test_a_clip_becomes_the_frames_and_tokens_that_the_model_makes_of_it(
    model_type, seconds, inputs, frames, silent, tokens
):
    found = encoder({"model_type": model_type, "audio_config": {}}, AUDIO)
    tower = found.of_clips(2, seconds=seconds)
    assert (tower.inputs, tower.patches, tower.further, tower.tokens) == (inputs, frames, silent, tokens)


def test_how_long_a_clip_is_by_itself_and_may_be():
    usual = {name: encoder({"model_type": name, "audio_config": {}}, AUDIO).usual_seconds for name in READ_TYPES[AUDIO]}
    assert usual == {
        "gemma4": None, "qwen2_audio": 30, "audioflamingo3": 30, "voxtral": 30, "ultravox": None,
        "qwen2_5_omni_thinker": None, "qwen3_omni_moe_thinker": None, "phi4_multimodal": None,
        "gemma3n": None,
    }  # fmt: skip
    longest = {
        name: encoder({"model_type": name, "audio_config": {"max_source_positions": 500}}, AUDIO).most_seconds
        for name in READ_TYPES[AUDIO]
    }
    assert {name: most for name, most in longest.items() if most is not None} == {"qwen2_audio": 10, "gemma3n": 30}
