"""Encoders of images, read from configurations, beside the modules of transformers: parameters and products."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from evenflow.fields import as_fields  # noqa: E402
from evenflow.predict.end_work import tower_passes  # noqa: E402
from evenflow.predict.layer_parts import Addition  # noqa: E402
from evenflow.predict.parameters import model_parameters  # noqa: E402
from evenflow.predict.tower import tower_parts  # noqa: E402
from evenflow.predict.training import Degrees, Software, Training  # noqa: E402
from evenflow.predict.transformer import Tower  # noqa: E402
from evenflow.predict.work import Operators  # noqa: E402
from evenflow.profiles.transformer.config_file import transformer_of_config  # noqa: E402
from evenflow.profiles.transformer.config_tower import READ_TYPES  # noqa: E402
from evenflow.profiles.transformer.numbers import Described  # noqa: E402

OWN_NAMES = ("internvl_chat",)
"""Types that transformers does not have under this name."""
OF_IMAGES = ("vis", "multi_modal", "projector")
"""Words in the names of what is not of the decoder."""


def config_of(model_type: str, **vision: object) -> Any:
    """The default configuration, with a decoder of few layers."""
    config = transformers.AutoConfig.for_model(model_type)
    text = config.get_text_config()
    text.num_hidden_layers = 2
    for name in ("layer_types", "mlp_layer_types"):
        if getattr(text, name, None):
            setattr(text, name, getattr(text, name)[:2])
    for name, value in vision.items():
        setattr(config.vision_config, name, value)
    config._attn_implementation = "eager"
    return config


def described(config: Any) -> Described:
    return transformer_of_config(as_fields(json.loads(config.to_json_string(use_diff=False)), file="config.json"))


@pytest.mark.parametrize("model_type", [name for name in READ_TYPES if name not in OWN_NAMES])
def test_parameters_are_those_of_the_modules(model_type: str):
    config = config_of(model_type)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    modules = sum(each.numel() for name, each in model.named_parameters() if any(word in name for word in OF_IMAGES))
    found = described(config)
    assert found.encoder is not None
    with_tower = replace(found.model, tower=found.encoder.tower)
    assert model_parameters(with_tower) - model_parameters(found.model) == modules


def test_a_configuration_in_the_words_of_internvl_is_read_as_that_of_transformers():
    config = json.loads(config_of("internvl").to_json_string(use_diff=False))
    sizes = {key: value for key, value in config["vision_config"].items() if key != "attention_bias"}
    own = {
        "model_type": "internvl_chat", "llm_config": config["text_config"], "downsample_ratio": 0.5,
        "vision_config": {**sizes, "model_type": "intern_vit_6b", "qkv_bias": False, "image_size": 448},
    }  # fmt: skip
    found = [transformer_of_config(as_fields(each, file="config.json")).encoder for each in (config, own)]
    assert found[0] == found[1]


SMALL: dict[str, Any] = {"num_hidden_layers": 3, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 320}
OF_QWEN: dict[str, Any] = {"depth": 3, "hidden_size": 128, "num_heads": 4, "intermediate_size": 320}


def pixels(side: int) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(1, 3, side, side))


def patches(side: int, numbers: int) -> Callable[[Any], Any]:
    return lambda tower: tower(torch.zeros(side * side, numbers), grid_thw=torch.tensor([[1, side, side]]))


@pytest.mark.parametrize(
    ("model_type", "vision", "side", "run"),
    [
        ("internvl", {**SMALL, "image_size": (224, 224)}, 224, pixels(224)),
        ("gemma3", {**SMALL, "image_size": 224, "vision_use_head": False}, 224, pixels(224)),
        ("qwen3_vl", {**OF_QWEN, "deepstack_visual_indexes": [1]}, 256, patches(16, 3 * 2 * 16 * 16)),
        ("qwen2_5_vl", {**OF_QWEN, "fullatt_block_indexes": [2]}, 224, patches(16, 3 * 2 * 14 * 14)),
        ("glm4v", {**OF_QWEN, "image_size": 224, "out_hidden_size": 256}, 224, patches(16, 3 * 2 * 14 * 14)),
    ],
)
def test_products_are_those_that_run(model_type: str, vision: dict[str, Any], side: int, run: Callable[[Any], Any]):
    config = config_of(model_type, **vision)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    module = model.model.vision_tower if hasattr(model.model, "vision_tower") else model.model.visual
    module = type(module)._from_config(config.vision_config, attn_implementation="eager").float()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run(module)
    encoder = described(config).encoder
    assert encoder is not None
    tower = replace(encoder.tower, patches=(side // encoder.patch_side) ** 2)
    has_projector = hasattr(module, "merger")
    counted = sum(
        work.flops
        for part in tower_parts(training_of(described(config), tower))
        for work in tower_passes(part).forward
        if isinstance(work, Operators) and (has_projector or not is_projector(part.part))
    )
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


def is_projector(part: object) -> bool:
    return isinstance(part, Addition) and part.name == "projector"


def training_of(found: Described, tower: Tower) -> Training:
    return Training(
        model=replace(found.model, tower=tower), degrees=Degrees(), microbatch=1, global_batch=1, sequence=4096,
        software=Software(fused_attention=False),
    )  # fmt: skip
