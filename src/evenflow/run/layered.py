"""A model as a pipeline sees it: modules in a row, the body of which a plan cuts into stages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evenflow.errors import InputError

Context = Callable[[Tensor], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One module of the row."""

    name: str
    """Its path in the unsplit model, which its names in a state_dict begin with."""
    module: nn.Module
    position: int
    """Its place in the whole row."""
    is_body: bool
    """Whether it is one of the layers that a plan counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredModel:
    """Head, body layers and tail in order; each module takes one tensor and gives one."""

    whole: nn.Module
    """The unsplit model."""
    parts: tuple[Part, ...]
    context: Context | None = None
    """What body layers take beside their input, from the input of any of them: masks, rotary embeddings."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Names of parameters that are one and the same, such as tied embeddings."""

    @property
    def num_layers(self) -> int:
        """Body layers, which a plan counts."""
        return sum(part.is_body for part in self.parts)


def as_layered(model: nn.Module | Sequence[nn.Module], *, head_modules: int = 0, tail_modules: int = 0) -> LayeredModel:
    """The row of a model: transformers' Llama, or modules in order of which the first and last few may not be layers.

    `head_modules` and `tail_modules` say how many modules at the beginning and end of an ``nn.Sequential``,
    ``nn.ModuleList`` or list the plan does not count as layers: embedding, norm, output.

    Raises:
        InputError: a model that is neither.
    """
    if isinstance(model, nn.Module) and type(model).__name__ == "LlamaForCausalLM":
        return _llama(model)
    if isinstance(model, nn.Sequential | nn.ModuleList):
        named = list(model.named_children())
        whole: nn.Module = model
    elif isinstance(model, Sequence) and all(isinstance(module, nn.Module) for module in model):
        named = [(str(index), module) for index, module in enumerate(model)]
        whole = nn.ModuleList(model)
    else:
        raise InputError(
            value=type(model).__name__,
            rule="a model is transformers' LlamaForCausalLM, an nn.Sequential, an nn.ModuleList or a list of modules",
            place="model",
            remedy="write the model as modules in order, each with one tensor in and one out",
        )
    end = len(named) - tail_modules
    parts = tuple(
        Part(name=name, module=module, position=index, is_body=head_modules <= index < end)
        for index, (name, module) in enumerate(named)
    )
    return LayeredModel(whole=whole, parts=parts, shared=_shared(parts))


def _llama(model: Any) -> LayeredModel:
    """Embedding, decoder layers, norm, head; every stage makes mask and rotary embedding for itself."""
    from transformers.masking_utils import create_causal_mask

    config = model.config
    embeddings: dict[torch.device, nn.Module] = {}

    def rotary(device: torch.device) -> nn.Module:
        if device not in embeddings:  # from the configuration: the model's own may have no storage
            embeddings[device] = type(model.model.rotary_emb)(config=config).to(device)
        return embeddings[device]

    def context(hidden: Tensor) -> Mapping[str, Any]:
        positions = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        # Positions would only tell it whether sequences are packed, at the price of waiting for the device.
        mask = create_causal_mask(
            config=config, inputs_embeds=hidden, attention_mask=None, past_key_values=None, position_ids=None
        )
        return {
            "attention_mask": mask,
            "position_ids": positions,
            "position_embeddings": rotary(hidden.device)(hidden, position_ids=positions),
        }

    named = [("model.embed_tokens", model.model.embed_tokens)]
    named += [(f"model.layers.{index}", layer) for index, layer in enumerate(model.model.layers)]
    named += [("model.norm", model.model.norm), ("lm_head", model.lm_head)]
    parts = tuple(
        Part(name=name, module=module, position=index, is_body=name.startswith("model.layers."))
        for index, (name, module) in enumerate(named)
    )
    return LayeredModel(whole=model, parts=parts, context=context, shared=_shared(parts))


def _shared(parts: Sequence[Part]) -> tuple[tuple[str, ...], ...]:
    names: dict[int, list[str]] = {}
    for part in parts:
        for name, parameter in part.module.named_parameters(prefix=part.name, remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)
