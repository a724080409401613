"""The norm of all gradients of a model that ranks have in parts."""

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from evenflow_torch.run.engine.spread_tensors import local_part

_SMALLEST = 1e-6
"""Added to a norm before it divides, as torch does."""


def norm_over_ranks(
    gradients: Sequence[Tensor],
    norm_type: float,
    *,
    counts: bool,
    device: torch.device,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return the norm of the gradients of all ranks of a group, the same on each; every rank calls it.

    A rank that does not count adds nothing: another one has the same gradients.
    """
    norms = [_norm(gradient, norm_type) for gradient in gradients]
    largest = math.isinf(norm_type)
    own = torch.zeros((), dtype=torch.float64, device=device)
    if norms and counts:
        every = torch.stack([norm.to(device) for norm in norms])
        own = every.max() if largest else every.pow(norm_type).sum()
    dist.all_reduce(own, op=dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM, group=group)
    return own if largest else own.pow(1.0 / norm_type)


def scale_to_norm(gradients: Sequence[Tensor | None], norm: Tensor, max_norm: float) -> None:
    """Scale gradients of the norm `norm` down to `max_norm`; shorter ones stay as they are."""
    factor = (max_norm / (norm + _SMALLEST)).clamp(max=1.0)
    with torch.no_grad():
        for gradient in gradients:
            if gradient is not None:
                local = local_part(gradient)
                local.mul_(factor.to(device=local.device, dtype=local.dtype))


def _norm(gradient: Tensor, norm_type: float) -> Tensor:
    """Return the norm of one gradient, of all devices that it lies on."""
    norm = torch.linalg.vector_norm(gradient.detach(), norm_type)
    whole: Tensor = norm.full_tensor() if isinstance(norm, DTensor) else norm
    return whole.to(torch.float64)
