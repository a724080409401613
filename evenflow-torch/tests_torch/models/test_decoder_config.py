"""Decoders from a configuration, and configurations that make none."""

import pytest
import torch

from evenflow.cluster.dtypes import Dtype
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow_torch.models.decoder_config import build_decoder
from tests_torch.models.layers import llama_config


def built(*, dtype: Dtype = Dtype.BFLOAT16, tensor_parallel: int = 1, **sizes: object) -> object:
    config = as_fields(llama_config(**sizes), file="config.json")
    return build_decoder(config, dtype=dtype, tensor_parallel=tensor_parallel)


@pytest.mark.parametrize("dtype", Dtype)
def test_a_model_has_the_stated_format_and_no_storage(dtype: Dtype) -> None:
    model = built(dtype=dtype, torch_dtype="float16")
    assert {(one.dtype, one.device.type) for one in model.parameters()} == {(getattr(torch, dtype), "meta")}
    assert model.training


def test_more_devices_than_key_heads_repeat_them() -> None:
    layer = built(tensor_parallel=4).model.layers[0]
    assert sum(one.numel() for one in layer.parameters()) == 2 * 64 + 64 * 16 * (1 + 1 + 1 + 1) + 3 * 64 * 40


def test_sizes_that_a_configuration_leaves_out_are_shared_too() -> None:
    stated = llama_config(model_type="mistral", num_key_value_heads=8, num_attention_heads=8)
    left_out = {key: value for key, value in stated.items() if key != "num_key_value_heads"}  # Mistral's own: 8
    found = [
        build_decoder(as_fields(values, file="x"), dtype=Dtype.BFLOAT16, tensor_parallel=2).num_parameters()
        for values in (stated, left_out)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"model_type": "no_such"}, "config.json: model_type must be a decoder that transformers knows"),
        ({"model_type": "gpt2"}, "this one has no model.embed_tokens"),
        ({"model_type": 3}, "config.json: model_type must"),
        ({"hidden_size": "wide"}, "config.json: hidden_size must be an integer from 1 to"),
        ({"num_hidden_layers": 0}, "config.json: num_hidden_layers must be an integer from 1 to"),
        ({"num_attention_heads": 0}, "config.json: num_attention_heads must be an integer from 1 to"),
    ],
)
def test_bad_configurations(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(**sizes)


def test_shares_must_divide() -> None:
    with pytest.raises(InputError, match=r"config.json: num_attention_heads must divide by the 3 devices"):
        built(tensor_parallel=3)
