"""Decoders of transformers as rows: part after part gives what the model's own forward gives, bit for bit."""

import logging
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from evenflow.errors import InputError
from evenflow_torch.models.decoder_row import MODEL_TYPES
from evenflow_torch.models.rows import as_row

SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "num_hidden_layers": 4,
    "max_position_embeddings": 64,
    # Layers of several kinds, where a model has them: dense and experts, whole sequences and windows.
    "sliding_window": 3,
    "use_sliding_window": True,
    "max_window_layers": 2,
    "first_k_dense_replace": 1,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 4,
    # Not where a model begins, so that a factor which is left out shows.
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.5,
    "attention_dropout": 0.0,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id")),
}


def model_of(model_type: str) -> Any:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(7)
    sizes = {**SIZES, **({"num_key_value_heads": 4} if "deepseek" in model_type else {})}  # keys are latent there
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes)).train()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", sorted(MODEL_TYPES))
def test_part_after_part_is_the_model(model_type: str) -> None:
    model = model_of(model_type)
    tokens = torch.randint(32, (2, 7))
    expected = model(tokens, use_cache=False).logits
    expected.square().mean().backward()
    gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    row = as_row(model)
    assert row.num_layers == 4
    hidden = tokens
    for part in row.parts:
        given = hidden
        hidden = part.module(given, **(row.context(given, part) if row.context else {}))
        assert not part.keeps_shape or (hidden.shape, hidden.dtype) == (given.shape, given.dtype)
    assert torch.equal(hidden, expected)
    hidden.square().mean().backward()
    for name, parameter in model.named_parameters():
        if name in gradients:
            assert torch.equal(parameter.grad, gradients[name]), name


@pytest.mark.parametrize("model_type", ["granite"])
def test_models_that_do_more_between_their_parts_are_refused(model_type: str) -> None:
    with pytest.raises(InputError, match=r"of type bart, .*deepseek_v2, .*llama"):
        as_row(model_of(model_type))
