"""Split backwards: linear layers leave their weight gradient for later.

The runtime's own split walks the autograd graph once a group of parameters. Under checkpointing it would recompute each
time, and on the first stage it leaves everything for the weight gradient. Here the input gradient is an ordinary
backward, so what is recomputed is recomputed once, in which every linear layer keeps its input and output gradient.
The weight gradient is then one product a layer, which autograd adds up. Other parameters (norms, embeddings) get their
gradients at once, and so do weights that are no plain parameters of linear layers alone: parametrized ones (what makes
them would be repeated), those that other modules use too, and those with hooks, which are to see the whole
gradient of a microbatch, whatever else uses the weight.
[ZeroBubble, arXiv:2401.10241, §3.3]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

import evenflow_torch
from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A weight gradient before it is multiplied."""

    linear: nn.Linear
    hidden: Tensor
    """Input of the layer."""
    gradient: Tensor
    """Gradient of its output."""


class WeightGradients:
    """The weight gradients that a stage has left for later."""

    def __init__(self) -> None:
        self._waiting: list[_Product] = []

    def defer(self, modules: Sequence[nn.Module]) -> tuple[tuple[int, str], ...]:
        """Make the linear layers of `modules` leave their weight gradients here, in place.

        Returns the linear layers whose weight gradients do not wait: position in `modules`, and name in that module.
        """
        linears = {
            (position, name): module
            for position, outer in enumerate(modules)
            for name, module in outer.named_modules()
            if isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward
        }
        others = {inner for outer in modules for inner in outer.modules()} - set(linears.values())
        used_elsewhere = {id(parameter) for module in others for parameter in module.parameters(recurse=False)}
        whole = []
        for place, linear in linears.items():
            if _waits(linear) and not any(id(own) in used_elsewhere for own in linear.parameters(recurse=False)):
                linear.forward = partial(_forward, linear, self._waiting)
            else:
                whole.append(place)
        return tuple(whole)

    def take(self) -> Callable[[], None]:
        """Return a function that computes all weight gradients left since the last call."""
        waiting = self._waiting.copy()
        self._waiting.clear()
        return partial(_accumulate, waiting)

    def check_forward(self, place: str) -> None:
        """Raise InputError where a forward has left weight gradients, by taking a gradient of its own."""
        if self._waiting:
            self._waiting.clear()
            raise InputError(
                value=_("a gradient that is computed inside the forward"),
                rule=_("must not pass through a linear layer whose weight gradient waits"),
                place=place,
                remedy=_("use a schedule whose backwards are whole, such as 1f1b or interleaved"),
            )


def _waits(linear: nn.Linear) -> bool:
    """Whether weight and bias are the layer's own, not made anew in each forward, and have no hooks of a user."""
    own = linear._parameters
    return own.keys() >= {"weight", "bias"} and not any(
        parameter is not None and _has_hooks(parameter) for parameter in own.values()
    )


def _has_hooks(parameter: Tensor) -> bool:
    """Whether a user has hooks on a parameter; those of stages on several devices know that gradients come later."""
    hooks = (*(parameter._backward_hooks or {}).values(), *(parameter._post_accumulate_grad_hooks or {}).values())
    modules = (getattr(getattr(hook, "func", hook), "__module__", "") for hook in hooks)
    return any(not module.startswith(f"{evenflow_torch.__name__}.") for module in modules)


def _forward(linear: nn.Linear, waiting: list[_Product], hidden: Tensor) -> Tensor:
    if not linear.weight.requires_grad or not torch.is_grad_enabled() or not _waits(linear):
        return nn.Linear.forward(linear, hidden)
    # A leaf of no size stands for the weight, so that the output needs a gradient even where the input does not, and no
    # hook of the weight is called before its gradient is there.
    leaf = torch.empty(0, device=hidden.device, requires_grad=True)
    output: Tensor = _DeferredLinear.apply(hidden, leaf, linear, waiting)
    return output


class _DeferredLinear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, leaf: Tensor, linear: nn.Linear, waiting: list[_Product]) -> Tensor:
        context.save_for_backward(hidden)
        context.linear, context.waiting = linear, waiting
        output = functional.linear(hidden, linear.weight, linear.bias)
        # Outside of this function it is no view, so modules may change it in place.
        return torch.ops.aten._unsafe_view(output, output.shape) if output._is_view() else output

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (hidden,) = context.saved_tensors
        (gradient,) = gradients
        context.waiting.append(_Product(context.linear, hidden, gradient))
        needed = context.needs_input_grad[0]
        return (gradient @ context.linear.weight.to(gradient.dtype) if needed else None), None, None, None


class _WeightGradient(torch.autograd.Function):
    """No value, whose gradients in weight and bias are those that waited."""

    @staticmethod
    def forward(context: Any, weight: Tensor, bias: Tensor | None, product: _Product) -> Tensor:
        context.product = product
        return weight.new_empty(0)

    @staticmethod
    def backward(context: Any, *_gradients: Tensor) -> tuple[Tensor | None, ...]:
        product, context.product = context.product, None  # freed here, and not at the end of all of them
        rows = product.gradient.flatten(0, -2)
        weight = rows.T @ product.hidden.flatten(0, -2).to(rows.dtype)
        return weight, rows.sum(dim=0) if context.needs_input_grad[1] else None, None


def _accumulate(waiting: list[_Product]) -> None:
    with torch.enable_grad():
        roots = [_WeightGradient.apply(product.linear.weight, product.linear.bias, product) for product in waiting]
    waiting.clear()
    if roots:
        torch.autograd.backward(roots, [torch.empty_like(root) for root in roots])
