"""Transformers from a few numbers, and what is assumed for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.parameters import model_parameters
from evenflow.predict.transformer import EVERY_BIAS, Biases, Experts, LatentAttention
from evenflow.profiles.transformer.numbers import Numbers, described


def test_four_numbers_make_a_gpt() -> None:
    found = described(Numbers(hidden=12_288, layers=96, heads=96, vocabulary=51_200, positions=2_048))
    model = found.model
    assert (model.head_dim, model.kv_heads, model.ffn, model.gated, model.tied) == (128, 96, 49_152, False, True)
    assert model.biases == EVERY_BIAS
    assert round(model_parameters(model) / 1e9, 1) == 174.6
    assert found.notes == (
        "the MLP has two matrices (not gated)",
        "a head is 128 wide: the hidden size by the heads",
        "the MLP is 49152 wide: four times the hidden size",
        "the output layer is the table of the embedding",
        "every head has keys and values of its own",
    )


def test_a_gated_model_is_a_llama() -> None:
    found = described(Numbers(hidden=4_096, layers=32, heads=32, vocabulary=32_000, gated=True))
    assert model_parameters(found.model) == 6_738_415_616  # Llama 2 7B
    assert found.model.biases == Biases()
    assert "the MLP is 11008 wide: 8/3 of the hidden size, rounded up" in found.notes
    assert "the output layer has a table of its own" in found.notes


def test_experts_are_gated_and_their_width_is_that_of_a_dense_layer() -> None:
    experts = Experts(count=8, active=2, ffn=14_336)
    numbers = Numbers(hidden=4_096, layers=32, heads=32, kv_heads=8, vocabulary=32_000, experts=experts)
    found = described(numbers)
    assert model_parameters(found.model) == 46_702_792_704  # Mixtral 8x7B
    assert found.model.ffn == 14_336


def test_what_is_given_is_not_noted() -> None:
    numbers = Numbers(
        hidden=60, layers=2, heads=8, vocabulary=100, kv_heads=2, head_dim=16, ffn=99, gated=True, tied=True
    )
    assert described(numbers).notes == ()
    latent = LatentAttention(query_rank=0, key_value_rank=8, rotary_dim=4, plain_dim=8, value_dim=8)
    found = described(Numbers(hidden=60, layers=2, heads=8, vocabulary=9, ffn=9, gated=True, tied=True, latent=latent))
    assert found.notes == ()
    assert found.model.head_dim == 12


def test_the_width_of_a_head_must_follow() -> None:
    with pytest.raises(InputError) as refused:
        described(Numbers(hidden=100, layers=2, heads=8, vocabulary=100))
    assert str(refused.value) == (
        "heads must divide the hidden size (100), or their width must be given, got 8; give the width of a head"
    )


@given(heads=st.integers(1, 12), width=st.integers(1, 20), layers=st.integers(1, 9), gated=st.booleans())
def test_every_note_is_in_the_model(heads: int, width: int, layers: int, gated: bool) -> None:
    """Numbers filled in with what they became describe the same model, without a note."""
    numbers = Numbers(hidden=heads * width, layers=layers, heads=heads, vocabulary=50, gated=gated)
    model = described(numbers).model
    whole = Numbers(
        hidden=model.hidden, layers=layers, heads=heads, vocabulary=50, gated=gated, kv_heads=model.kv_heads,
        head_dim=model.head_dim, ffn=model.ffn, tied=model.tied, biases=model.biases,
    )  # fmt: skip
    again = described(whole)
    assert again.model == model
    assert again.notes == ()
    assert model.ffn >= (8 * model.hidden / 3 if gated else 4 * model.hidden)
