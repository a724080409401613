"""Tensors as bits: equal means every bit, so that NaN equals itself and -0 is not 0."""

from functools import lru_cache

import torch
from torch import Tensor

from evenflow_torch.run.engine.spread_tensors import local_part

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def num_different(first: Tensor, second: Tensor) -> Tensor:
    """Return how many numbers of two tensors differ in some bit, as a tensor on their device that nobody waits for.

    Tensors of different shapes or types differ in all numbers.
    """
    if first.shape != second.shape or first.dtype != second.dtype:
        return torch.tensor(max(first.numel(), second.numel()))
    return (_bits(first) != _bits(second)).sum()


def checksum(tensor: Tensor) -> Tensor:
    """Return a 64-bit sum over the bits of a tensor that changes with any one number and with the order of rows.

    Rows, along the last dimension, have odd weights. What cancels, such as two numbers of a row that change places, it
    does not see.
    """
    bits = _bits(tensor)
    rows = bits.reshape(-1, bits.shape[-1] if bits.dim() else 1).sum(1, dtype=torch.int64)
    return (rows * _odd_numbers(len(rows), rows.device)).sum()


@lru_cache(maxsize=8)
def _odd_numbers(count: int, device: torch.device) -> Tensor:
    return torch.arange(1, 2 * count, 2, device=device)


def flip_bit(tensor: Tensor) -> None:
    """Flip the lowest bit of the first number, in place, unseen by autograd."""
    bits = _bits(tensor)
    bits[(0,) * bits.dim()] ^= 1


def _bits(tensor: Tensor) -> Tensor:
    plain = local_part(tensor).data
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    return plain.view(_INTEGERS[plain.element_size()])
