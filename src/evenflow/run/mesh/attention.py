"""Attention on DTensors: batch and heads are independent, and rows of the query need all keys and values up to theirs.

torch has no rule for the CPU's kernel, and those of others give results in an order of memory that depends on the sizes
of the parts, which views behind it do not expect.
"""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.nn import functional

from evenflow.run.mesh.local_parts import local_part

BATCH, HEADS, LENGTH = 0, 1, 2


def attention(
    query: DTensor,
    key: DTensor,
    value: DTensor,
    attn_mask: DTensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **keywords: Any,
) -> DTensor:
    """Compute attention of [batch, heads, length, width]; key and value may have fewer heads, a mask one for all.

    Where the query is split by length, keys and values are gathered, and a causal mask is that of this device's rows.
    """
    placements = _placements(query, key)

    def part(tensor: DTensor, *, rows: bool) -> Tensor:
        def is_split(placement: Placement) -> bool:
            if not isinstance(placement, Shard):
                return False
            at = placement.dim - query.ndim + tensor.ndim  # a mask may have fewer dimensions
            return at >= 0 and tensor.shape[at] > 1 and (rows or placement.dim != LENGTH)

        wanted = [
            Shard(placement.dim - query.ndim + tensor.ndim) if is_split(placement) else Replicate()
            for placement in placements
            if isinstance(placement, Shard | Replicate)
        ]
        return local_part(tensor, wanted, placements)

    keys, values = part(key, rows=False), part(value, rows=False)
    mask = None if attn_mask is None else part(attn_mask, rows=True)
    if is_causal and any(isinstance(one, Shard) and one.dim == LENGTH for one in placements):
        is_causal, first, rows = False, *_own_rows(query, placements)
        last = min(first + rows, keys.shape[LENGTH])  # later ones are hidden from all of these rows
        keys, values = keys[..., :last, :], values[..., :last, :]
        mask = torch.ones(rows, last, dtype=torch.bool, device=keys.device).tril(first)
    result = functional.scaled_dot_product_attention(
        part(query, rows=True), keys, values, mask, dropout_p, is_causal, **keywords
    )
    return DTensor.from_local(result.contiguous(), query.device_mesh, placements)


def _placements(query: DTensor, key: DTensor) -> list[Placement]:
    """Return the query's placements where they split batch, heads or rows and can split those of the keys too."""
    left = {BATCH: key.shape[BATCH], HEADS: key.shape[HEADS], LENGTH: query.shape[LENGTH]}
    result: list[Placement] = []
    for axis, placement in enumerate(query.placements):
        size = query.device_mesh.size(axis)
        dimension = placement.dim if type(placement) is Shard else None
        if dimension in left and left[dimension] % size == 0:
            left[dimension] //= size
            result.append(Shard(dimension))
        else:
            result.append(Replicate())
    return result


def _own_rows(query: DTensor, placements: list[Placement]) -> tuple[int, int]:
    """Return the first row of this device and how many it has."""
    first, rows = 0, query.shape[LENGTH]
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard) and placement.dim == LENGTH:
            rows //= query.device_mesh.size(axis)
            first += rows * query.device_mesh.get_local_rank(axis)
    return first, rows
