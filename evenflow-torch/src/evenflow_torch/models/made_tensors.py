"""Modules and inputs with made-up tensors in place of their own."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

Make = Callable[[torch.Tensor], torch.Tensor]
"""Makes a tensor like the given one."""


def copy_with(module: nn.Module, make: Make) -> nn.Module:
    """Return a copy of `module` with parameters and buffers from `make`; the module's own are never copied."""
    made: dict[int, Any] = {}
    for parameter in module.parameters():
        made[id(parameter)] = nn.Parameter(make(parameter), requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        made[id(buffer)] = make(buffer)
    for inner in module.modules():
        # What the last forward has made of parameters, as `torch.nn.utils.weight_norm` keeps it, cannot be copied.
        for value in vars(inner).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                made[id(value)] = make(value)
    return copy.deepcopy(module, made)


def made_inputs(values: Any, make: Make) -> Any:
    """Return `values`, however nested, with every tensor replaced by one from `make`."""
    return tree_map_only(torch.Tensor, make, values)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors among `values`, however nested, in order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def first_tensor(result: Any) -> torch.Tensor:
    """Return what a part hands over: its result, or the first of several."""
    while isinstance(result, Sequence):
        result = result[0]
    assert isinstance(result, torch.Tensor)
    return result


def make_empty(like: torch.Tensor) -> torch.Tensor:
    """Make a tensor without values on the CPU, or without storage under fake tensors."""
    return torch.empty(like.shape, dtype=like.dtype, device="cpu")


def maker_of_values(device: torch.device, index_limit: int) -> Make:
    """Return a maker of plausible values: small normal numbers, indices below the limit, masks that hide nothing."""

    def make(like: torch.Tensor) -> torch.Tensor:
        if like.is_floating_point():
            return torch.empty(like.shape, dtype=like.dtype, device=device).normal_(std=0.02)
        if like.dtype == torch.bool:
            return torch.ones(like.shape, dtype=like.dtype, device=device)
        count = torch.arange(like.numel(), device=device) % index_limit
        return count.to(like.dtype).reshape(like.shape)

    return make
