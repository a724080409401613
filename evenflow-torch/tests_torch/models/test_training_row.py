"""The row of a decoder in training: names, inputs, and the loss of its tail."""

import pytest
import torch

from evenflow.cluster.dtypes import Dtype
from evenflow.fields import as_fields
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.training_row import read_decoder
from tests_torch.models.layers import llama_config


def read(**sizes: object) -> ModelRow:
    config = as_fields(llama_config(**sizes), file="config.json")
    return read_decoder(config, sequence=6, microbatch=2, dtype=Dtype.FLOAT32, name="small")


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "mixtral"])
def test_the_parts_have_the_parameters_of_the_model_under_their_names(model_type: str) -> None:
    row = read(model_type=model_type)
    names = [part.full_name(name) for part in row.parts for name, _ in part.module.named_parameters()]
    assert names == [name for name, _ in row.whole.named_parameters()]
    assert [part.position for part in row.parts] == list(range(len(row.parts)))
    assert (row.name, row.notes) == ("small", ())


def test_every_part_takes_what_the_one_before_gives() -> None:
    row = read()
    for before, after in zip(row.parts, row.parts[1:], strict=False):
        result = before.module(*before.inputs, **before.named_inputs)
        assert (result.shape, result.dtype) == (after.inputs[0].shape, after.inputs[0].dtype)
    assert [part.index_limit for part in row.parts] == [320, 6, 6, 320]


def test_the_tail_gives_the_loss_of_the_model() -> None:
    row = read(tie_word_embeddings=True)
    assert "tied" in row.notes[0]
    model = row.whole.to_empty(device="cpu")
    model.model.rotary_emb = type(model.model.rotary_emb)(config=model.config)
    torch.manual_seed(1)
    model.init_weights()
    tokens = torch.randint(320, (2, 6))
    before_norm = []
    model.model.norm.register_forward_pre_hook(lambda _norm, inputs: before_norm.append(inputs[0]))
    expected = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    (tail,) = row.tail
    assert torch.equal(tail.module(before_norm[0], tokens), expected)
