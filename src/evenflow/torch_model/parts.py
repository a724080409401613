"""A part of a model that runs on its own: a layer, or an end of the model, with the inputs it gets."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

Make = Callable[[torch.Tensor], torch.Tensor]
"""Makes a tensor like the given one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A module and its inputs, of which only shapes and types matter: they may be on the meta device."""

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    """Positional; the first is what the part before gives, and its gradient is the input gradient."""
    named_inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the layers share, such as masks and position embeddings."""
    index_limit: int = 2
    """Integer inputs of a measurement are below this."""

    @property
    def takes_gradient(self) -> bool:
        """Whether there is a part before that needs the gradient of the first input."""
        return bool(self.inputs[0].is_floating_point())


def copy_with(module: nn.Module, make: Make) -> nn.Module:
    """A copy of `module` with parameters and buffers from `make`, which the module's own are never copied for."""
    made: dict[int, Any] = {}
    for parameter in module.parameters():
        made[id(parameter)] = nn.Parameter(make(parameter), requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        made[id(buffer)] = make(buffer)
    return copy.deepcopy(module, made)


def made_inputs(values: Any, make: Make) -> Any:
    """`values`, however nested, with every tensor replaced by one from `make`."""
    return tree_map_only(torch.Tensor, make, values)


def first_tensor(result: Any) -> torch.Tensor:
    """What a part hands on: its result, or the first of several."""
    while isinstance(result, Sequence):
        result = result[0]
    assert isinstance(result, torch.Tensor)
    return result


def make_empty(like: torch.Tensor) -> torch.Tensor:
    """Without values, on the CPU (or none, under fake tensors)."""
    return torch.empty(like.shape, dtype=like.dtype, device="cpu")


def maker_of_values(device: torch.device, index_limit: int) -> Make:
    """Makes tensors with plausible values: small normal numbers, indices below the limit, masks that hide nothing."""

    def make(like: torch.Tensor) -> torch.Tensor:
        if like.is_floating_point():
            return torch.empty(like.shape, dtype=like.dtype, device=device).normal_(std=0.02)
        if like.dtype == torch.bool:
            return torch.ones(like.shape, dtype=like.dtype, device=device)
        count = torch.arange(like.numel(), device=device) % index_limit
        return count.to(like.dtype).reshape(like.shape)

    return make
