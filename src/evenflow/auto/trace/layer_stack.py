"""A stage of equal layers, to be traced. torch is imported at the top: import this only where a module is at hand."""

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow.auto.trace.equal_layers import clone_module

STACKED = "0-1."
"""The beginning of the names of a stack's parameters."""
FIRST = "0"
"""The path of the layer of a stack that stands for both."""


def differentiable(example_input: Any) -> Any:
    """Return inputs without data that take gradients: a stage hands back gradients of all numbers that it is given."""

    def convert(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        return torch.empty_like(one, device="meta").requires_grad_(one.is_floating_point())

    return tree_map(convert, example_input)


def stack(layer: nn.Module) -> nn.Module:
    """Two of `layer`, one behind the other: enough to see what one hands to the next.

    Each takes what the one before returned (the first of several results) as its first argument, and the others alike.
    """
    return _Stack(layer, clone_module(layer, (), {}, lambda tensor: tensor))


class _Stack(nn.Sequential):  # type: ignore[misc]  # torch is not checked
    def forward(self, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        for layer in self.children():
            hidden = layer(hidden, *args, **kwargs)
            if isinstance(hidden, tuple):
                hidden = hidden[0]
        return hidden
