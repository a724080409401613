"""Linear layers on DTensors: each device multiplies its own rows, columns or terms, as it holds them.

    input                 weight            result
    rows split            whole             rows split
    whole                 rows split        columns split
    columns split         columns split     a partial sum, to which one device adds the bias

DTensor flattens the rows first. Where two axes of the mesh split rows of different dimensions that has no simple
placement, for which it searches the cheapest way to every other one: seconds in the first step.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.nn import functional

from evenflow_torch.run.mesh.local_parts import local_part, split_like

OUTPUTS, INPUTS = Shard(0), Shard(1)
"""How the weight is split."""


def linear(hidden: DTensor, weight: DTensor, bias: DTensor | None = None) -> Tensor:
    """Run `torch.nn.functional.linear` on this device's part where the placements fit, else as DTensor has it."""
    placements = [_result(*pair, hidden.ndim - 1) for pair in zip(hidden.placements, weight.placements, strict=True)]
    if any(placement is None for placement in placements):
        return functional.linear(hidden, weight, bias)
    results = [placement for placement in placements if placement is not None]
    own_bias = None if bias is None else _bias(bias, results, hidden.ndim - 1)
    result = functional.linear(
        local_part(hidden, hidden.placements, results), local_part(weight, weight.placements, results), own_bias
    )
    whole = torch.empty((*hidden.shape[:-1], weight.shape[0]), device="meta")
    return DTensor.from_local(
        result,
        hidden.device_mesh,
        results,
        run_check=False,
        shape=whole.shape,
        stride=whole.stride(),
        grad_placements=[Replicate() if placement.is_partial() else placement for placement in results],
    )


def _result(of_input: Placement, of_weight: Placement, last: int) -> Placement | None:
    """Return how the result is split along one axis of the mesh; None if the devices of the axis have to exchange."""
    match of_input, of_weight:
        case Replicate(), Replicate():
            return Replicate()
        case Shard(dim=dimension), Replicate() if dimension != last:
            return of_input
        case Replicate(), Shard() if of_weight == OUTPUTS:
            return Shard(last)
        case Shard(dim=dimension), Shard() if dimension == last and of_weight == INPUTS:
            return Partial()
    return None


def _bias(bias: DTensor, results: Sequence[Placement], last: int) -> Tensor:
    """Return this device's part of the bias; nothing where another one adds it to the sum."""
    own = local_part(bias, split_like(results, {last: 0}), results)
    mesh = bias.device_mesh
    is_first = not any(placement.is_partial() and mesh.get_local_rank(axis) for axis, placement in enumerate(results))
    added: Tensor = own if is_first else _NotAdded.apply(own)
    return added


class _NotAdded(torch.autograd.Function):
    """Zeros for a tensor that another device adds, whose gradient is the same on both."""

    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]
