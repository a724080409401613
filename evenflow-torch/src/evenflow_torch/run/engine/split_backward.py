"""Split backwards: linear layers leave their weight gradient for later.

The runtime's own split walks the autograd graph once a group of parameters. Under checkpointing it would recompute each
time, and on the first stage it leaves everything for the weight gradient. Here the input gradient is an ordinary
backward, so what is recomputed is recomputed once, in which every linear layer keeps its input and output gradient.
The weight gradient is then one product a layer. Other parameters (norms, embeddings) get their gradients at once.
[ZeroBubble, arXiv:2401.10241, §3.3]
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class WeightGradients:
    """The weight gradients that a stage has left for later."""

    def __init__(self) -> None:
        self._waiting: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def defer(self, module: nn.Module) -> None:
        """Make the linear layers of `module` leave their weight gradients here, in place."""
        for linear in module.modules():
            if isinstance(linear, nn.Linear) and type(linear).forward is nn.Linear.forward:
                linear.forward = partial(_forward, linear, self._waiting)

    def take(self) -> Callable[[], None]:
        """Return a function that computes all weight gradients left since the last call."""
        waiting = self._waiting.copy()
        self._waiting.clear()
        return partial(_accumulate, waiting)


def _forward(linear: nn.Linear, waiting: list[tuple[nn.Linear, Tensor, Tensor]], hidden: Tensor) -> Tensor:
    if not linear.weight.requires_grad or not torch.is_grad_enabled():
        return functional.linear(hidden, linear.weight, linear.bias)
    # The weight stands among the arguments so that the output needs a gradient even where the input does not.
    output: Tensor = _DeferredLinear.apply(hidden, linear.weight, linear, waiting)
    return output


class _DeferredLinear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, linear: nn.Linear, waiting: list[Any]) -> Tensor:
        context.save_for_backward(hidden)
        context.linear, context.waiting = linear, waiting
        return functional.linear(hidden, weight, linear.bias)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (hidden,) = context.saved_tensors
        (gradient,) = gradients
        context.waiting.append((context.linear, hidden, gradient))
        needed = context.needs_input_grad[0]
        return (gradient @ context.linear.weight.to(gradient.dtype) if needed else None), None, None, None


def _accumulate(waiting: list[tuple[nn.Linear, Tensor, Tensor]]) -> None:
    with torch.no_grad():
        while waiting:
            linear, hidden, gradient = waiting.pop(0)
            rows = gradient.flatten(0, -2)
            _add(linear.weight, rows.T @ hidden.flatten(0, -2).to(rows.dtype))
            if linear.bias is not None and linear.bias.requires_grad:
                _add(linear.bias, rows.sum(dim=0))


def _add(parameter: nn.Parameter, gradient: Tensor) -> None:
    gradient = gradient.to(parameter.dtype)
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient
