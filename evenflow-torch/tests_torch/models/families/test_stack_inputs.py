"""What a decoder's own forward gives its layers, against the layers themselves."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from evenflow_torch.models.decoder_row import DECODER_STACK
from evenflow_torch.models.families.stack_inputs import stack_inputs
from tests_torch.models.layers import llama_config

WINDOWS = {"use_sliding_window": True, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}


def model_on(device: str) -> object:
    config = AutoConfig.for_model(**llama_config(model_type="qwen2", **WINDOWS), attn_implementation="eager")
    with torch.device(device):
        torch.manual_seed(3)
        return AutoModelForCausalLM.from_config(config).train()


def test_the_stand_ins_are_given_what_the_layers_are() -> None:
    model = model_on("cpu")
    hidden = torch.randn(2, 7, 64)
    seen: list[dict[str, object]] = []
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda _layer, _inputs, named: seen.append(named), with_kwargs=True)
    model.model(inputs_embeds=hidden, use_cache=False)
    given = stack_inputs(model.model, DECODER_STACK, hidden)
    assert len(given) == len(seen) == 2
    for named, expected in zip(given, seen, strict=True):
        assert torch.equal(named["attention_mask"], expected["attention_mask"])
        assert all(map(torch.equal, named["position_embeddings"], expected["position_embeddings"]))
    assert not torch.equal(given[0]["attention_mask"], given[1]["attention_mask"]), "window and whole"


def test_a_model_without_storage_gives_real_inputs_and_is_left_as_it_was() -> None:
    model, real = model_on("meta"), model_on("cpu")
    before = dict(model.model.named_modules())
    hidden = torch.zeros(1, 5, 64)
    on_meta, expected = (stack_inputs(base.model, DECODER_STACK, hidden) for base in (model, real))
    for named, other in zip(on_meta, expected, strict=True):
        assert all(map(torch.equal, named["position_embeddings"], other["position_embeddings"]))
    assert dict(model.model.named_modules()) == before
