"""A stage of equal layers, to be traced. torch is imported at the top: import this only where a module is at hand."""

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow_torch.models.trace.equal_layers import clone_module

STACKED = "0-1."
"""The beginning of the names of a stack's parameters."""
FIRST = "0"
"""The path of the layer of a stack that stands for both."""


def differentiable(example_input: Any) -> Any:
    """Return inputs without data that take gradients: a stage hands back the gradients of all its inputs."""

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return torch.empty_like(leaf, device="meta").requires_grad_(leaf.is_floating_point())

    return tree_map(convert, example_input)


def stack(layer: nn.Module) -> nn.Module:
    """Return a module of `layer` twice in a row: enough to see what one hands to the next.

    Each takes what the one before returned (the first of several results) as its first argument, and the others alike.
    """
    return _Stack(layer, clone_module(layer, (), {}, lambda tensor: tensor))


class _Stack(nn.Sequential):  # torch is not checked
    def forward(self, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        for layer in self.children():
            hidden = layer(hidden, *args, **kwargs)
            if isinstance(hidden, tuple):
                hidden = hidden[0]
        return hidden
