"""Decoders of transformers as rows: embedding, layers, norm, output layer.

head   model.embed_tokens
body   model.layers, in order
tail   model.norm, lm_head
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evenflow_torch.models.families.stack_inputs import stack_inputs
from evenflow_torch.models.families.table import LayerStack
from evenflow_torch.models.parts import ModelRow, Part, shared_names

MODEL_TYPES = frozenset(
    (
        *("llama", "mistral", "ministral", "ministral3", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe"),
        *("deepseek_v2", "deepseek_v3", "gemma", "phi3", "olmo", "olmo2", "olmo3", "olmoe", "starcoder2", "stablelm"),
        *("glm", "glm4", "glm4_moe", "smollm3", "exaone4", "internlm3", "ernie4_5", "ernie4_5_moe"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "gpt_oss", "minimax_m2"),
    )
)
"""Model types whose forward is these parts one after the other and nothing else: a test computes each both ways."""


DECODER_PARTS = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")
"""Paths of the parts of a decoder."""
DECODER_STACK = LayerStack(path="model", layers="layers", behind=("norm",))


def missing_part(model: nn.Module) -> str | None:
    """Return the first of `DECODER_PARTS` that `model` has not, if any."""
    for path in DECODER_PARTS:
        try:
            model.get_submodule(path)
        except AttributeError:
            return path
    return None


def is_runnable_decoder(model: nn.Module) -> bool:
    """Whether the parts of `decoder_row`, one after the other, compute what `model` does."""
    return getattr(getattr(model, "config", None), "model_type", None) in MODEL_TYPES and missing_part(model) is None


def decoder_row(model: Any) -> ModelRow:
    """Return the row of a decoder; every part makes its masks and rotary embeddings for itself."""
    base = model.model
    layers = [(f"model.layers.{index}", layer) for index, layer in enumerate(base.layers)]
    tail = [("model.norm", base.norm), ("lm_head", model.lm_head)]
    parts = tuple(
        Part(name=path, path=path, module=module, position=position, keeps_shape=0 < position <= len(layers))
        for position, (path, module) in enumerate([("model.embed_tokens", base.embed_tokens), *layers, *tail])
    )
    return ModelRow(
        head=parts[:1],
        body=parts[1:-2],
        tail=parts[-2:],
        whole=model,
        context=_InputsByShape(base),
        shared=shared_names(parts),
    )


class _InputsByShape:
    """Makes what each layer gets beside hidden states; those of the last shape are kept."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._num_layers = len(base.layers)
        self._last: tuple[object, list[Mapping[str, Any]]] = ((), [])

    def __call__(self, hidden: Tensor, part: Part) -> Mapping[str, Any]:
        layer = part.position - 1
        if not 0 <= layer < self._num_layers:
            return {}
        key = tuple(hidden.shape), hidden.dtype, hidden.device
        if self._last[0] != key:
            zeros = torch.zeros(key[0], dtype=key[1], device=key[2])
            self._last = key, stack_inputs(self._base, DECODER_STACK, zeros)
        return self._last[1][layer]
