"""Models as rows: part after part gives what the model's own forward gives, in values and in gradients."""

from typing import Any

import pytest
import torch

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow_torch.models.decoder_config import build_family_model
from evenflow_torch.models.families.row_modules import dropping_module
from evenflow_torch.models.families.table import FAMILIES
from evenflow_torch.models.rows import as_row
from tests_torch.models.families.small_models import small

SOURCE, LENGTH = 5, 12


def model_of(model_type: str, **sizes: Any) -> Any:
    """The model with values, as it is trained."""
    config = as_fields(small(model_type, **sizes), file="config.json")
    model = build_family_model(config, dtype=Dtype.FLOAT32)
    torch.manual_seed(3)
    values = type(model)(model.config)
    return values.train()


def logits_of(model: Any, model_type: str, tokens: torch.Tensor) -> torch.Tensor:
    """The logits as a user of transformers would ask for them."""
    if FAMILIES[model_type].has_source:
        return model(input_ids=tokens[:, :SOURCE], decoder_input_ids=tokens[:, SOURCE:]).logits
    return model(tokens).logits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_part_after_part_is_the_model(model_type: str) -> None:
    model = model_of(model_type)
    tokens = torch.randint(2, 32, (2, LENGTH), generator=torch.Generator().manual_seed(5))
    expected = logits_of(model, model_type, tokens)
    expected.square().mean().backward()
    gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    row = as_row(model, source_tokens=SOURCE)
    assert row.whole_logits is not None
    assert row.context is not None
    hidden = tokens
    for part in row.parts:
        given = hidden
        hidden = part.module(given, **row.context(given, part))
        assert not part.keeps_shape or (hidden.shape, hidden.dtype) == (given.shape, given.dtype)
    torch.testing.assert_close(hidden, expected, rtol=1e-6, atol=1e-6)
    hidden.square().mean().backward()
    for name, gradient in gradients.items():
        found = model.get_parameter(name).grad
        assert found is not None, name
        torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(row.whole_logits(tokens), expected)


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_every_parameter_is_in_a_part_under_a_name_of_the_model(model_type: str) -> None:
    row = as_row(model_of(model_type), source_tokens=SOURCE)
    names = {part.full_name(name) for part in row.parts for name, _one in part.module.named_parameters()}
    known = dict(row.whole.named_parameters(remove_duplicate=False))
    assert names <= known.keys()
    assert {id(known[name]) for name in names} == {id(one) for one in row.whole.parameters()}


def test_layers_of_encoder_and_decoder_are_all_in_the_body() -> None:
    row = as_row(model_of("t5"), source_tokens=SOURCE)
    assert [part.path for part in row.body] == [
        *(f"encoder.block.{index}" for index in range(3)),
        "encoder.final_layer_norm",
        *(f"decoder.block.{index}" for index in range(3)),
    ]


def test_an_encoder_needs_a_source() -> None:
    with pytest.raises(InputError, match="source_tokens"):
        as_row(model_of("bart"))


@pytest.mark.parametrize(
    ("model_type", "sizes", "path"),
    [("bart", {"dropout": 0.1}, "model.encoder"), ("gpt2", {"embd_pdrop": 0.1}, "transformer.drop")],
)
def test_dropout_is_found_wherever_it_is(model_type: str, sizes: dict[str, float], path: str) -> None:
    assert dropping_module(model_of(model_type)) is None
    assert dropping_module(model_of(model_type, **sizes)) == path
