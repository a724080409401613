"""Several tensors on their way between stages as one: one message, one buffer, one gradient.

    tensors         hidden [2, 5, 8]   memory [2, 7, 8]   mask [2, 7] of booleans
    what is sent    80 numbers         112 numbers        14 bytes as numbers       in one row

The numbers are of the widest floating type among the tensors, which holds those of all others exactly. Of other types
every byte becomes a number, which even 16 bits hold. Gradients flow to those of floating types.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How several tensors lie in the row of numbers that is sent."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What crosses between two stages for one microbatch."""

    tensor: Tensor
    """The tensor that is sent, on the meta device; it requires a gradient if it gets one."""
    packing: Packing | None = None
    """How it holds several tensors; None: it is the one that crosses."""


def boundary_of(tensors: Sequence[Tensor], *, is_trained: bool) -> Boundary:
    """Return what is sent for `tensors`, of which only shapes and types matter."""
    with torch.no_grad():
        empty = [torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for tensor in tensors]
        row = empty[0] if len(empty) == 1 else packed(empty)
    return Boundary(
        tensor=row.requires_grad_(is_trained and row.is_floating_point()),
        packing=packing_of(tensors) if len(empty) > 1 else None,
    )


def tensors_in(boundary: Boundary) -> tuple[Tensor, ...]:
    """Return the tensors that cross, on the meta device."""
    packing = boundary.packing
    return (boundary.tensor.detach(),) if packing is None else unpacked(boundary.tensor.detach(), packing)


def packing_of(tensors: Sequence[Tensor]) -> Packing:
    """Return how `tensors` are packed."""
    return Packing(
        shapes=tuple(tuple(tensor.shape) for tensor in tensors), dtypes=tuple(tensor.dtype for tensor in tensors)
    )


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """Return one row with the values of all tensors."""
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    carrier = reduce(torch.promote_types, floating, floating[0]) if floating else torch.float32
    return torch.cat([_numbers(tensor).flatten().to(carrier) for tensor in tensors])


def unpacked(row: Tensor, packing: Packing) -> tuple[Tensor, ...]:
    """Return the tensors that `packed` has put into a row."""
    tensors: list[Tensor] = []
    start = 0
    for shape, dtype in zip(packing.shapes, packing.dtypes, strict=True):
        size = torch.Size(shape).numel()
        size = size if dtype.is_floating_point else size * dtype.itemsize
        numbers = row[start : start + size]
        start += size
        if dtype.is_floating_point:
            tensors.append(numbers.to(dtype).view(shape))
        else:
            tensors.append(numbers.detach().to(torch.uint8).view(dtype).view(shape))
    return tuple(tensors)


def _numbers(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_floating_point() else tensor.detach().contiguous().flatten().view(torch.uint8)
