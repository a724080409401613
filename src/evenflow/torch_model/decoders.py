"""Decoders of transformers as rows: embedding, layers, norm, head.

What layers get beside hidden states (masks, rotary embeddings, different for layers of different kinds) is what the
model's own forward gives them: it runs once for every shape, with layers that only note their inputs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from evenflow.torch_model.layered import LayeredModel, Part, shared_names

MODEL_TYPES = frozenset(
    (
        *("llama", "mistral", "ministral", "ministral3", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe"),
        *("deepseek_v2", "deepseek_v3", "gemma", "phi3", "olmo", "olmo2", "olmo3", "olmoe", "starcoder2", "stablelm"),
        *("glm", "glm4", "glm4_moe", "smollm3", "exaone4", "internlm3", "ernie4_5", "ernie4_5_moe"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "gpt_oss", "minimax_m2"),
    )
)
"""Whose forward is these parts one after the other and nothing else: a test computes each of them both ways."""
_PARTS = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")


def is_decoder(model: nn.Module) -> bool:
    """Whether `as_decoder` takes it."""
    return getattr(getattr(model, "config", None), "model_type", None) in MODEL_TYPES and all(
        _has(model, part) for part in _PARTS
    )


def as_decoder(model: Any) -> LayeredModel:
    """Its row; every stage makes masks and rotary embeddings for itself."""
    layers = [(f"model.layers.{index}", layer, True) for index, layer in enumerate(model.model.layers)]
    head = [("model.embed_tokens", model.model.embed_tokens, False)]
    tail = [("model.norm", model.model.norm, False), ("lm_head", model.lm_head, False)]
    parts = tuple(
        Part(name=name, module=module, position=index, is_body=is_layer, keeps_shape=is_layer)
        for index, (name, module, is_layer) in enumerate([*head, *layers, *tail])
    )
    return LayeredModel(whole=model, parts=parts, context=_Inputs(model, parts), shared=shared_names(parts))


class _Inputs:
    """What each layer gets beside hidden states; those of the last shape are kept."""

    def __init__(self, model: Any, parts: tuple[Part, ...]) -> None:
        self._base = model.model
        self._layer_of = {part.position: index for index, part in enumerate(one for one in parts if one.is_body)}
        self._last: tuple[object, list[Mapping[str, Any]]] = ((), [])

    def __call__(self, hidden: Tensor, part: Part) -> Mapping[str, Any]:
        key = tuple(hidden.shape), hidden.dtype, hidden.device
        if self._last[0] != key:
            self._last = key, self._noted(torch.zeros(key[0], dtype=key[1], device=key[2]))
        return self._last[1][self._layer_of[part.position]]

    def _noted(self, hidden: Tensor) -> list[Mapping[str, Any]]:
        """The empty cache is there so that nothing asks for values of positions; the layers go without."""
        from transformers import DynamicCache

        layers = [_Note() for _ in self._layer_of]
        with _replaced(self._base, layers, hidden.device), torch.no_grad():
            self._base(inputs_embeds=hidden, past_key_values=DynamicCache(), use_cache=False)
        return [layer.noted for layer in layers]


class _Note(nn.Module):
    """Hands on what it gets, and keeps what comes beside it."""

    def forward(self, hidden: Tensor, **named: Any) -> Tensor:
        self.noted = {**named, **({"past_key_values": None} if "past_key_values" in named else {})}
        return hidden


@contextmanager
def _replaced(base: Any, layers: list[_Note], device: torch.device) -> Iterator[None]:
    """Layers that note, no norm, and a rotary embedding with storage, which the model's own may not have."""
    before = dict(base._modules)
    base.layers, base.norm = nn.ModuleList(layers), nn.Identity()
    if "rotary_emb" in before:
        base.rotary_emb = type(base.rotary_emb)(config=base.config).to(device)
    try:
        yield
    finally:
        base._modules.update(before)


def _has(model: nn.Module, path: str) -> bool:
    try:
        model.get_submodule(path)
    except AttributeError:
        return False
    return True
