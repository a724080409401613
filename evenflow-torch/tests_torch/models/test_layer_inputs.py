"""What a decoder's own forward gives its layers, against the layers themselves."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from evenflow_torch.models.layer_inputs import layer_inputs
from tests_torch.models.layers import llama_config

WINDOWS = {"use_sliding_window": True, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}


def model_on(device: str) -> object:
    config = AutoConfig.for_model(**llama_config(model_type="qwen2", **WINDOWS), attn_implementation="eager")
    with torch.device(device):
        torch.manual_seed(3)
        return AutoModelForCausalLM.from_config(config).train()


def test_the_stand_ins_are_given_what_the_layers_are() -> None:
    model = model_on("cpu")
    tokens = torch.randint(320, (2, 7))
    seen: list[dict[str, object]] = []
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda _layer, _inputs, named: seen.append(named), with_kwargs=True)
    model.model(input_ids=tokens, use_cache=False)
    given = layer_inputs(model.model, input_ids=tokens)
    assert len(given) == len(seen) == 2
    for one, expected in zip(given, seen, strict=True):
        assert one.others == ()
        assert torch.equal(one.named["attention_mask"], expected["attention_mask"])
        assert all(map(torch.equal, one.named["position_embeddings"], expected["position_embeddings"]))
    assert not torch.equal(given[0].named["attention_mask"], given[1].named["attention_mask"]), "window and whole"


def test_a_model_without_storage_gives_real_inputs_and_is_left_as_it_was() -> None:
    model, real = model_on("meta"), model_on("cpu")
    before = dict(model.model.named_modules())
    hidden = torch.zeros(1, 5, 64)
    found = layer_inputs(model.model, inputs_embeds=hidden)
    expected = layer_inputs(real.model, inputs_embeds=hidden)
    for one, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, one.named["position_embeddings"], other.named["position_embeddings"]))
    assert dict(model.model.named_modules()) == before
    on_meta = layer_inputs(model.model, input_ids=torch.zeros(1, 5, dtype=torch.long, device="meta"))
    assert (on_meta[1].hidden.shape, on_meta[1].hidden.is_meta) == (hidden.shape, True)
