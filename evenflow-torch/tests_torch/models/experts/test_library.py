"""Unmodified models of transformers with their experts as one operator."""

import copy

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from evenflow_torch.models.experts.library import as_one_operator
from evenflow_torch.models.live_storage import StorageLog

SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 4, "moe_intermediate_size": 12, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
    "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
    "v_head_dim": 4, "shared_expert_intermediate_size": 12, "pad_token_id": 0, "layer_types": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "model_type", ["mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss", "minimax_m2"]
)
def test_results_and_gradients_are_those_of_the_library(model_type: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **SIZES)
    model = AutoModelForCausalLM.from_config(config, experts_implementation="eager").double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    tokens = torch.randint(32, (2, 7))
    other = copy.deepcopy(model)
    wanted = model(input_ids=tokens, labels=tokens).loss
    wanted.backward()
    with as_one_operator(), StorageLog() as log:
        found = other(input_ids=tokens, labels=tokens).loss
        found.backward()
    names = [one.name for one in log.operators]
    layers = sum(type(one).__name__.endswith("Experts") for one in model.modules())
    assert layers
    assert names.count("evenflow.experts.default") == names.count("evenflow.experts_backward.default") == layers
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)  # norms of transformers round to float32
    for (name, one), same in zip(other.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, same.grad, rtol=1e-5, atol=1e-7, msg=name)


def test_the_registry_is_as_before() -> None:
    before = dict(ALL_EXPERTS_FUNCTIONS)
    with as_one_operator(), as_one_operator():
        assert dict(ALL_EXPERTS_FUNCTIONS) != before
    assert dict(ALL_EXPERTS_FUNCTIONS) == before
    assert "eager" not in ALL_EXPERTS_FUNCTIONS
