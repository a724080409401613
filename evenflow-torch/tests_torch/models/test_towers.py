"""Encoders of images and sound, read from configurations, beside the modules of transformers: parameters, products."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from evenflow.errors import InputError  # noqa: E402
from evenflow.fields import as_fields  # noqa: E402
from evenflow.predict.end_work import tower_passes  # noqa: E402
from evenflow.predict.parameters import model_parameters  # noqa: E402
from evenflow.predict.tower import tower_parts  # noqa: E402
from evenflow.predict.training import Degrees, Software, Training  # noqa: E402
from evenflow.predict.transformer import Modality, Tower  # noqa: E402
from evenflow.predict.work import Operators  # noqa: E402
from evenflow.profiles.transformer.config_audio import AudioEncoder  # noqa: E402
from evenflow.profiles.transformer.config_encoders import READ_TYPES  # noqa: E402
from evenflow.profiles.transformer.config_file import transformer_of_config  # noqa: E402
from evenflow.profiles.transformer.config_images import ImageEncoder  # noqa: E402
from evenflow.profiles.transformer.numbers import Described  # noqa: E402

OWN_NAMES = ("internvl_chat", "ultravox", "gemma3n", "kimi_k3")
"""Types that transformers does not have under this name, or builds with a package of its own alone."""
WITH_PARTS = {"gemma4": ("text_config", "vision_config", "audio_config")}
"""Types whose parts are not there by default."""
OF_SOUND = {"qwen2_audio", "voxtral", "audioflamingo3"}
"""Types whose encoder is of sound alone."""


def config_of(model_type: str, **vision: object) -> Any:
    """The default configuration, with a decoder of few layers."""
    parts = {name: {} for name in WITH_PARTS.get(model_type, ())}
    config = transformers.AutoConfig.for_model(model_type, **parts)
    text = config.get_text_config()
    if parts:  # whose layers differ
        for name, value in vision.items():
            setattr(config.vision_config, name, value)
        return config
    text.num_hidden_layers = 2
    for name in ("layer_types", "mlp_layer_types"):
        if getattr(text, name, None):
            setattr(text, name, getattr(text, name)[:2])
    for name, value in vision.items():
        setattr(config.vision_config, name, value)
    config._attn_implementation = "eager"
    return config


def built(config: Any) -> Any:
    """The modules of a whole model, without memory for their numbers."""
    auto = transformers.AutoModelForImageTextToText
    if config.model_type in OF_SOUND:
        auto = transformers.AutoModelForSeq2SeqLM
    elif config.model_type == "phi4_multimodal":
        auto = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(config)


def modality_of(model_type: str, name: str) -> Modality | None:
    """The encoder that a parameter of this name belongs to; None for the decoder."""
    if "audio" in name or (model_type in OF_SOUND and "multi_modal" in name):
        return Modality.AUDIO
    return Modality.IMAGE if any(word in name for word in ("vis", "multi_modal", "projector")) else None


def described(config: Any) -> Described:
    return transformer_of_config(as_fields(json.loads(config.to_json_string(use_diff=False)), file="config.json"))


@pytest.mark.parametrize("model_type", sorted({*READ_TYPES["image"], *READ_TYPES["audio"]} - set(OWN_NAMES)))
def test_parameters_are_those_of_the_modules(model_type: str):
    config = config_of(model_type)
    modules = dict.fromkeys((*Modality, None), 0)
    for name, each in built(config).named_parameters():
        modules[modality_of(model_type, name)] += each.numel()
    found = described(config)
    assert {modality for modality in Modality if modules[modality]} == set(found.encoders)
    for modality, encoder in found.encoders.items():
        assert not isinstance(encoder, InputError)
        with_tower = replace(found.model, towers=(encoder.tower,))
        assert model_parameters(with_tower) - model_parameters(found.model) == modules[modality]
    if set(found.encoders) == set(Modality):
        both = tuple(encoder.tower for encoder in found.encoders.values())
        assert model_parameters(replace(found.model, towers=both)) == sum(modules.values())


def test_a_configuration_in_the_words_of_internvl_is_read_as_that_of_transformers():
    config = json.loads(config_of("internvl").to_json_string(use_diff=False))
    sizes = {key: value for key, value in config["vision_config"].items() if key != "attention_bias"}
    own = {
        "model_type": "internvl_chat", "llm_config": config["text_config"], "downsample_ratio": 0.5,
        "vision_config": {**sizes, "model_type": "intern_vit_6b", "qkv_bias": False, "image_size": 448},
    }  # fmt: skip
    found = [transformer_of_config(as_fields(each, file="config.json")).encoders for each in (config, own)]
    assert found[0] == found[1]
    assert isinstance(found[0][Modality.IMAGE], ImageEncoder)


SMALL: dict[str, Any] = {"num_hidden_layers": 3, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 320}
OF_QWEN: dict[str, Any] = {"depth": 3, "hidden_size": 128, "num_heads": 4, "intermediate_size": 320}


def pixels(side: int) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(1, 3, side, side))


def patches(side: int, numbers: int) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(side * side, numbers), grid_thw=torch.tensor([[1, side, side]]))


def places(side: int, numbers: int) -> Callable[[Any], Any]:
    """Patches with their columns and rows."""
    found = torch.cartesian_prod(torch.arange(side), torch.arange(side)).flip(1)[None]
    return lambda tower: tower(torch.zeros(1, side * side, numbers), pixel_position_ids=found)


@pytest.mark.parametrize(
    ("model_type", "vision", "side", "run"),
    [
        ("internvl", {**SMALL, "image_size": (224, 224)}, 224, pixels(224)),
        ("gemma3", {**SMALL, "image_size": 224, "vision_use_head": False}, 224, pixels(224)),
        ("qwen3_vl", {**OF_QWEN, "deepstack_visual_indexes": [1]}, 256, patches(16, 3 * 2 * 16 * 16)),
        ("qwen2_5_vl", {**OF_QWEN, "fullatt_block_indexes": [2]}, 224, patches(16, 3 * 2 * 14 * 14)),
        ("gemma4", {**SMALL, "num_key_value_heads": 4, "head_dim": 32}, 192, places(12, 3 * 16 * 16)),
        ("glm4v", {**OF_QWEN, "image_size": 224, "out_hidden_size": 256}, 224, patches(16, 3 * 2 * 14 * 14)),
    ],
)
def test_products_are_those_that_run(model_type: str, vision: dict[str, Any], side: int, run: Callable[[Any], Any]):
    config = config_of(model_type, **vision)
    model = built(config)
    module = model.model.vision_tower if hasattr(model.model, "vision_tower") else model.model.visual
    module = type(module)._from_config(config.vision_config, attn_implementation="eager").float()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run(module)
    encoder = described(config).encoders[Modality.IMAGE]
    assert isinstance(encoder, ImageEncoder)
    tower = encoder.of_images(1, side=side)
    counted = flops(described(config), tower, projections=_ALL if hasattr(module, "merger") else 0)
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


_ALL = 9
HEARD: dict[str, Any] = {"num_hidden_layers": 3, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}


PHI: dict[str, Any] = {"num_blocks": 3, "ext_pw_out_channel": 128, "depthwise_separable_out_channel": 128}


def columns(count: int, **more: object) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(1, 128, count), **more)


def heard(count: int) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(128, count), feature_lens=torch.tensor([count]))


@pytest.mark.parametrize(
    ("model_type", "audio", "seconds", "run", "projections"),
    [
        ("qwen2_audio", {}, 30, columns(3000), 0),
        ("voxtral", {}, 30, columns(3000), 0),
        ("audioflamingo3", {}, 30, columns(3000, input_features_mask=torch.ones(1, 3000)), 0),
        ("gemma4", {}, 12, lambda tower: tower(torch.zeros(1, 1200, 128)), 1),
        ("phi4_multimodal", PHI, 12, lambda tower: tower(torch.zeros(1, 1200, 80), None), 0),
        ("qwen2_5_omni_thinker", {"output_dim": 3584}, 20, heard(2000), 2),
        ("qwen2_5_omni_thinker", {"output_dim": 3584, "n_window": 50}, 9, heard(900), 2),
        ("qwen3_omni_moe_thinker", {"output_dim": 3584, "n_window_infer": 200}, 24, heard(2400), 2),
    ],
)
def test_products_over_sound_are_those_that_run(
    model_type: str, audio: dict[str, Any], seconds: int, run: Callable[[Any], Any], projections: int
):
    """`projections` are the products of the projector that the module of the encoder has."""
    config = config_of(model_type)
    for name, value in {**HEARD, **audio}.items():
        setattr(config.audio_config, name, value)
    whole = built(config)
    module = next(each for name, each in whole.named_modules() if name.endswith(("audio_tower", "audio_embed.encoder")))
    module = type(module)._from_config(config.audio_config, attn_implementation="eager").float()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run(module)
    encoder = described(config).encoders[Modality.AUDIO]
    assert isinstance(encoder, AudioEncoder)
    counted = flops(described(config), encoder.of_clips(1, seconds=seconds), projections=projections)
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_encoder_of_sound_of_gemma_3n():
    """Its modules by themselves: those for images need a package of their own."""
    config = transformers.Gemma3nConfig(
        text_config={"hidden_size": 256}, audio_config={"hidden_size": 128, "conf_num_hidden_layers": 2}
    )
    modules = transformers.models.gemma3n.modeling_gemma3n
    tower = modules.Gemma3nAudioEncoder(config.audio_config).float()
    embedder = modules.Gemma3nMultimodalEmbedder(config.audio_config, config.text_config)
    values = {
        "model_type": "gemma3n", "text_config": json.loads(config.text_config.to_json_string(use_diff=False)),
        "audio_config": json.loads(config.audio_config.to_json_string(use_diff=False)),
    }  # fmt: skip
    found = transformer_of_config(as_fields(values, file="config.json"))
    encoder = found.encoders[Modality.AUDIO]
    assert isinstance(encoder, AudioEncoder)
    learned = sum(each.numel() for part in (tower, embedder) for each in part.parameters())
    with_tower = replace(found.model, towers=(encoder.tower,))
    assert model_parameters(with_tower) - model_parameters(found.model) == learned
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        tower(torch.zeros(1, 1152, 128), torch.zeros(1, 1152, dtype=torch.bool))
    of_frames = replace(encoder.tower, patches=1152 // 4)
    assert flops(found, of_frames, projections=0) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_ultravox_is_whisper_with_stacked_frames_behind_it():
    """Its modules are not in transformers: the encoder is Whisper's, the projector two products and two norms."""
    whisper = transformers.WhisperConfig(d_model=128, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=512)
    with torch.device("meta"):
        encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(whisper)
    text = json.loads(config_of("qwen2_audio").text_config.to_json_string(use_diff=False))
    config = {
        "model_type": "ultravox", "audio_config": json.loads(whisper.to_json_string(use_diff=False)),
        "text_config": text, "hidden_size": 512, "stack_factor": 8, "projector_act": "swiglu", "projector_ln_mid": True,
    }  # fmt: skip
    modules = sum(each.numel() for each in encoder.parameters())
    stacked, out = 8 * 128, text["hidden_size"]
    for ln_mid, normed in ((True, 256), (False, out)):
        found = transformer_of_config(as_fields(config | {"projector_ln_mid": ln_mid}, file="config.json"))
        read = found.encoders[Modality.AUDIO]
        assert isinstance(read, AudioEncoder)
        with_tower = replace(found.model, towers=(read.tower,))
        projector = stacked + 512 * stacked + out * 256 + normed
        assert model_parameters(with_tower) - model_parameters(found.model) == modules + projector


def flops(found: Described, tower: Tower, *, projections: int) -> float:
    """The operations of the products of an encoder, with so many of those of its projector."""
    behind = replace(tower.behind, products=tower.behind.products[:projections])
    tower = replace(tower, behind=behind, taps=tower.taps if projections else ())
    return sum(
        work.flops
        for part in tower_parts(training_of(found, tower))
        for work in tower_passes(part).forward
        if isinstance(work, Operators)
    )


def training_of(found: Described, tower: Tower) -> Training:
    return Training(
        model=replace(found.model, towers=(tower,)), degrees=Degrees(), microbatch=1, global_batch=1, sequence=4096,
        software=Software(fused_attention=False),
    )  # fmt: skip
