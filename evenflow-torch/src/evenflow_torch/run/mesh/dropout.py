"""Dropout on DTensors: every device draws the numbers of the whole tensor, and uses those of its part.

So they are the numbers that one device draws for all, however the tensor is split. All devices of a stage begin with
the same state, as `evenflow_torch.run.engine.seeds` sets it. A partial sum is multiplied part by part.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate
from torch.nn import functional

from evenflow_torch.run.mesh.local_parts import replicated

Drop = Callable[..., Tensor]
"""A function of torch that multiplies a tensor with random factors, as `torch.nn.functional.dropout`."""
DROPS: Sequence[Drop] = functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d


def dropped(drop: Drop, hidden: DTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> DTensor:
    """Run `drop` on a tensor, with the factors that it would draw for all of it."""
    if not training or not p:
        return hidden
    whole = [Replicate() if placement.is_partial() else placement for placement in hidden.placements]
    factors = own_factors(drop, tuple(hidden.shape), p, hidden, whole)
    local = hidden.to_local(grad_placements=whole)
    result = local.mul_(factors) if inplace else local * factors
    return DTensor.from_local(
        result, hidden.device_mesh, hidden.placements, shape=hidden.shape, stride=hidden.stride(),
        grad_placements=whole,
    )  # fmt: skip


def own_factors(drop: Drop, shape: Sequence[int], p: float, like: DTensor, placements: Sequence[Placement]) -> Tensor:
    """Return this device's part of the factors of a tensor of this shape, which is split as `placements`."""
    with torch.no_grad():
        factors = drop(torch.ones(shape, dtype=like.dtype, device=like.to_local().device), p, True)
        own: Tensor = replicated(factors, like.device_mesh).redistribute(placements=placements).to_local()
    return own
