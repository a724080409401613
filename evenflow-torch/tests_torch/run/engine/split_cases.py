"""Modules of every kind, whose gradients and hooks must not depend on whether the backward is split."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

SIZE = 4


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor) -> Tensor:
        context.save_for_backward(hidden)
        return hidden.square()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return 2 * context.saved_tensors[0] * gradients[0]


class Own(nn.Module):
    """A layer with a function of its own, a parameter of its own, a buffer, and work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(SIZE, SIZE)
        self.scale = nn.Parameter(torch.full((SIZE,), 0.7))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, hidden: Tensor) -> Tensor:
        self.calls += 1
        inside = self.inner(hidden)
        inside.mul_(0.5)
        return hidden + Square.apply(inside * self.scale).clamp_(max=3.0)


class Twice(nn.Module):
    """One linear layer that is used twice, and its weight once more without it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.linear(self.inner(self.inner(hidden).tanh()), self.inner.weight.T)


class Tied(nn.Module):
    """Two linear layers and a lookup that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.table = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE), nn.Embedding(SIZE, SIZE)
        self.second.weight = self.first.weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.second(self.first(hidden).tanh()) + self.table.weight[0]


class TiedToTable(Tied):
    def __init__(self) -> None:
        super().__init__()
        self.table.weight = self.first.weight


class Turned(nn.Module):
    """A layer whose output and whose gradient are views of memory in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(SIZE, SIZE)

    def forward(self, hidden: Tensor) -> Tensor:
        turned: Tensor = self.inner(hidden.transpose(0, -2)).transpose(0, -2)
        return turned


class OverRows(nn.BatchNorm1d):
    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden.flatten(0, -2)).view_as(hidden)


def linear() -> nn.Linear:
    return nn.Linear(SIZE, SIZE)


def frozen(name: str) -> nn.Linear:
    layer = linear()
    getattr(layer, name).requires_grad_(False)
    return layer


def hooked(register: str, hook: Callable[..., Any]) -> nn.Linear:
    layer = linear()
    getattr(layer.weight, register)(hook)
    return layer


def halved_in_place(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad *= 0.5


def bias_parametrized() -> nn.Linear:
    layer = linear()
    parametrize.register_parametrization(layer, "bias", Doubled())
    return layer


def old_weight_norm() -> nn.Module:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        layer: nn.Module = nn.utils.weight_norm(linear())
    return layer


def watched() -> nn.Linear:
    layer = linear()
    layer.register_full_backward_hook(lambda _module, gradients, _outputs: tuple(0.9 * one for one in gradients))
    layer.register_forward_pre_hook(lambda _module, arguments: tuple(1.1 * one for one in arguments))
    return layer


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": linear,
    "no bias": lambda: nn.Linear(SIZE, SIZE, bias=False),
    "weight norm": lambda: parametrizations.weight_norm(linear()),
    "weight norm of old": old_weight_norm,
    "spectral norm": lambda: parametrizations.spectral_norm(linear(), n_power_iterations=2),
    "orthogonal": lambda: parametrizations.orthogonal(linear()),
    "parametrized bias": bias_parametrized,
    "frozen weight": lambda: frozen("weight"),
    "frozen bias": lambda: frozen("bias"),
    "gradient hook": lambda: hooked("register_hook", lambda gradient: gradient * 0.5),
    "hook that is not linear": lambda: hooked("register_hook", lambda gradient: gradient.clamp(-0.01, 0.01)),
    "hook behind the sum": lambda: hooked("register_post_accumulate_grad_hook", halved_in_place),
    "module hooks": watched,
    "own": Own,
    "twice": Twice,
    "tied": Tied,
    "tied to a table": TiedToTable,
    "turned": Turned,
    "norm": lambda: OverRows(SIZE),
    "in place": lambda: nn.Sequential(linear(), nn.ReLU(inplace=True)),
    "a kind of its own": lambda: nn.MultiheadAttention(SIZE, 2, batch_first=True).out_proj,
}


def module(name: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return MODULES[name]().double()
