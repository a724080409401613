"""What experts do between their two products: functions with a name that goes through traces.

A gate takes the first product, both halves as transformers lays them out, and gives one half's width.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Gate = Callable[[Tensor], Tensor]
"""From the first product [rows, 2 * width], or [rows, width] without a gate, to [rows, width]; each row by itself."""

_GATES: dict[str, Gate] = {}


def gate_named(name: str) -> Gate:
    """Return the function that `name_of` has given this name."""
    return _GATES[name]


def name_of(experts: Any) -> str | None:
    """Return a name for what an experts module of transformers does between its products; equal ones share it.

    None where that has parameters of its own.
    """
    activation = getattr(experts, "act_fn", None)
    if getattr(activation, "_parameters", None):
        return None
    numbers = {key: value for key, value in vars(experts).items() if isinstance(value, float)}
    kind = type(experts)
    name = f"{kind.__module__}.{kind.__qualname__} {activation!r} {sorted(numbers.items())}"
    if name not in _GATES:
        bare = copy.copy(experts)  # without the matrices, which nothing here may hold on to
        bare._parameters, bare._buffers = {}, {}
        _GATES[name] = bare._apply_gate if experts.has_gate else bare.act_fn
    return name


def gate_gradient(name: str, inner: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of what a gate takes, `inner`, for that of what it gives."""
    taken = inner.detach().requires_grad_()
    # Inside an operator autograd is passed by already: its keys are excluded, and come back for the gate alone.
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded - torch._C._dispatch_keys(taken)), torch.enable_grad():
        (of_taken,) = torch.autograd.grad(gate_named(name)(taken), taken, gradient)
    return of_taken
