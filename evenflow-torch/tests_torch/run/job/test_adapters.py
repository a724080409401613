"""Adapters beside the products of layers: they alone are trained, and at first they change nothing."""

import json
from dataclasses import replace

import pytest
import torch

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow_torch.run.job import adapters
from evenflow_torch.run.job.adapters import FIRST, SECOND
from evenflow_torch.run.job.models import build_model, materialise
from tests_torch.run.job.launched import job

CPU = torch.device("cpu")


def made(**changes: object):
    model = build_model(replace(job(3), **changes))
    materialise(model, list(model.parts), seed=1, device=CPU)
    return model


def logits(model, tokens: torch.Tensor) -> torch.Tensor:
    return model.whole(input_ids=tokens).logits


def test_only_adapters_are_trained_and_each_product_of_a_layer_has_one():
    plain, adapted = made(), made(adapter_rank=4)
    assert {name for name, each in adapted.whole.named_parameters() if each.requires_grad} == {
        name.replace("weight", kind)
        for part in plain.body
        for path, module in plain.whole.named_modules()
        if isinstance(module, torch.nn.Linear) and path.startswith(part.path)
        for kind in (FIRST, SECOND)
        for name in [f"{path}.weight"]
    }
    sizes = [(each.in_features, each.out_features) for each in plain.body[0].module.modules()
             if isinstance(each, torch.nn.Linear)]  # fmt: skip
    trained = sum(each.numel() for each in adapted.body[0].module.parameters() if each.requires_grad)
    assert trained == sum(4 * (read + given) for read, given in sizes)


def test_they_change_nothing_at_first_and_then_what_they_say():
    tokens = torch.arange(8)[None]
    plain, adapted = made(), made(adapter_rank=4)
    assert torch.equal(logits(plain, tokens), logits(adapted, tokens))
    path, product = next((path, each) for path, each in adapted.whole.named_modules() if hasattr(each, SECOND))
    with torch.no_grad():
        product.adapter_b.normal_()
        plain.whole.get_submodule(path).weight.add_(product.adapter_b @ product.adapter_a)
    torch.testing.assert_close(logits(plain, tokens), logits(adapted, tokens), rtol=1e-4, atol=1e-4)


def test_frozen_layers_have_none():
    model = made(adapter_rank=4, frozen_layers=2)
    trained = [any(each.requires_grad for each in part.module.parameters()) for part in model.parts]
    assert trained.count(True) == 1
    assert [hasattr(each, FIRST) for part in model.body[:2] for each in part.module.modules()].count(True) == 0


EXPERTS = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    "deepseek_v3": {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "kv_lora_rank": 8, "q_lora_rank": 8,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
    },
}  # fmt: skip


def of_experts(name: str, **changes: object):
    sizes = {
        "vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 4,
    }  # fmt: skip
    config = json.dumps({"model_type": name, **sizes, **EXPERTS[name]})
    return made(model=f"{name}.json", config=config, dtype=Dtype.FLOAT64, **changes)


@pytest.mark.parametrize("name", EXPERTS)
def test_each_expert_has_its_own_adapters_which_do_what_they_say(name: str):
    tokens = torch.arange(24).view(2, 12)
    plain, adapted = of_experts(name), of_experts(name, adapter_rank=3)
    torch.testing.assert_close(logits(plain, tokens), logits(adapted, tokens), rtol=1e-12, atol=1e-12)
    names = dict(adapted.whole.named_parameters())
    assert {own for own, value in names.items() if value.requires_grad} == {own for own in names if "adapter" in own}
    assert not any("adapter" in own for own in names if own.endswith(("router.weight", "gate.weight")))
    firsts = [own for own in names if own.endswith(f"_{FIRST}")]
    assert firsts
    with torch.no_grad():
        for first in firsts:
            second, matrix = first.replace(FIRST, SECOND), plain.whole.get_parameter(first.removesuffix(f"_{FIRST}"))
            names[second].normal_()
            change = names[second] @ names[first]
            matrix.add_(change.mT if name == "gpt_oss" else change)
    torch.testing.assert_close(logits(plain, tokens), logits(adapted, tokens), rtol=1e-9, atol=1e-9)
    logits(adapted, tokens).square().sum().backward()
    assert all(names[own].grad is not None and names[own].grad.abs().max() > 0 for own in firsts)


def test_experts_whose_gate_has_parameters_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(adapters, "has_plain_gate", lambda _module: False)
    with pytest.raises(InputError, match=r"--lora must be 0 for this model: .*experts of layer 0 is neither a linear"):
        of_experts("mixtral", adapter_rank=4)
