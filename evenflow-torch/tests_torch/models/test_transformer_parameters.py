"""Configurations read as plain numbers, beside the models that transformers builds of them."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedConfig

from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import counted, read


def trained_numbers(config: PreTrainedConfig) -> int:
    """Numbers that a model learns, and of what chooses patches of bytes.

    Of one that answers about images, those of its decoder, which reads tokens alone.
    """
    with torch.device("meta"):
        if type(config) in AutoModelForCausalLM._model_mapping:
            parts = [AutoModelForCausalLM.from_config(config)]
        else:
            model = AutoModelForImageTextToText.from_config(config)
            parts = [model.get_decoder(), model.get_output_embeddings()]
    named = ((name, one) for part in parts for name, one in part.named_parameters())
    others, never_trained = ("vqmodel", "vision_model"), ("patcher",)
    learned = dict.fromkeys(
        one
        for name, one in named
        if (one.requires_grad or any(part in name for part in never_trained))
        and not any(part in name for part in others)
    )
    return sum(one.numel() for one in learned)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL_CONFIGS)
def test_parameters_are_those_of_the_model_that_transformers_builds(name: str) -> None:
    """Both of the fields that a file states, and of all of them with what transformers fills in."""
    values = dict(SMALL_CONFIGS[name])
    built = AutoConfig.for_model(**values)
    trained = trained_numbers(built)
    found = read(SMALL_CONFIGS[name])
    assert counted(found.model) == trained
    whole = json.loads(built.to_json_string(use_diff=False))
    assert counted(read({**whole, "model_type": SMALL_CONFIGS[name]["model_type"]}).model) == trained
