"""Rows of models in training from their configurations: shapes, names, losses, and what is refused."""

from typing import Any

import pytest
import torch

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow_torch.models.families.family_training_row import read_family
from evenflow_torch.models.families.table import FAMILIES, ModelTask
from evenflow_torch.models.made_tensors import copy_with
from evenflow_torch.models.parts import ModelRow
from tests_torch.models.families.small_models import small


def read(model_type: str, *, sequence: int = 8, target: int = 6, **sizes: Any) -> ModelRow:
    return read_family(
        as_fields(small(model_type, **sizes), file="config.json"),
        sequence=sequence,
        target_sequence=target,
        microbatch=2,
        dtype=Dtype.FLOAT32,
    )


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neo", "opt", "bert", "t5", "bart", "mbart"])
def test_every_part_takes_what_the_one_before_gives(model_type: str) -> None:
    row = read(model_type)
    length = 14 if FAMILIES[model_type].has_source else 8
    assert row.parts[0].inputs[0].shape == (2, length)
    for before, after in zip(row.parts, row.parts[1:], strict=False):
        result = before.module(*before.inputs, **before.named_inputs)
        assert (
            (result.shape, result.dtype)
            == (after.inputs[0].shape, after.inputs[0].dtype)
            == (
                (2, length, 16),
                torch.float32,
            )
        )


@pytest.mark.parametrize("model_type", ["gpt2", "bert", "bart"])
def test_the_tail_gives_the_loss_of_the_model(model_type: str) -> None:
    row = read(model_type)
    made = {id(one): torch.randn(one.shape) for one in row.whole.parameters()}
    (tail,) = row.tail
    module = copy_with(tail.module, lambda one: made.get(id(one), torch.zeros(one.shape)))
    hidden = torch.randn(tail.inputs[0].shape)
    labels = torch.randint(32, tail.inputs[1].shape)
    loss = module(hidden, labels, **tail.named_inputs)
    for part, own in zip(tail.modules, list(module.children()), strict=True):
        del part
        hidden = own(hidden[:, -labels.shape[1] :])
    shifted = FAMILIES[model_type].task is ModelTask.NEXT_TOKEN
    if shifted:
        hidden, labels = hidden[:, :-1], labels[:, 1:]
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(hidden.flatten(0, 1), labels.flatten()))


@pytest.mark.parametrize(
    ("model_type", "sizes", "message"),
    [
        ("gpt2", {"sequence": 65}, "at most the 64 positions.*65"),
        ("bart", {"target": 65}, "at most the 64 positions.*65"),
        ("gpt2", {"n_head": 3, "num_attention_heads": 3}, "gpt2 that transformers can build"),
        ("t5", {"num_layers": 0, "num_hidden_layers": 0}, "num_hidden_layers"),
        ("gpt2", {"n_embd": "wide", "hidden_size": "wide"}, "hidden_size"),
        ("llama", {}, "must be one of"),
    ],
)
def test_configurations_that_make_no_model_are_refused(model_type: str, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(model_type, **sizes)
