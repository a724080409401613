"""Attention on DTensors: batch and heads are independent, and rows of the query need all keys and values up to theirs.

torch has no rule for the CPU's kernel, and those of others give results in an order of memory that depends on the sizes
of the parts, which views behind it do not expect.
"""

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.nn import functional

from evenflow.cluster import AttentionOnMesh, RowExchange
from evenflow_torch.run.mesh.attention.by_rows import ByRows
from evenflow_torch.run.mesh.attention.kernels import dropping
from evenflow_torch.run.mesh.attention.row_messages import RowMessages
from evenflow_torch.run.mesh.dropout import own_factors
from evenflow_torch.run.mesh.local_parts import local_part, torch_placements

BATCH, HEADS, LENGTH = 0, 1, 2


_ACTIVE: list[AttentionOnMesh] = []
"""The plans of the modules that compute now, the innermost last; a process computes one module at a time."""


def set_attention(module: nn.Module, how: AttentionOnMesh) -> None:
    """Share the attention that a module calls as planned: its forward is replaced, which recomputation runs alone."""
    inner = module.forward

    @wraps(inner)
    def forward(*arguments: Any, **keywords: Any) -> Any:
        _ACTIVE.append(how)
        try:
            return inner(*arguments, **keywords)
        finally:  # recomputation ends in the middle of a module
            _ACTIVE.pop()

    module.forward = forward


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

    It is split as the plan says of the module that calls it, else as the query is. Where the query is split by length,
    keys and values are gathered, and a causal mask is that of this device's rows, unless the plan says otherwise.
    """
    planned = _ACTIVE[-1] if _ACTIVE else None
    placements = _placements(query, key, query.placements if planned is None else torch_placements(planned.placement))
    is_own_mask = attn_mask is None or not (is_causal or attn_mask.requires_grad)
    axis = None if dropout_p or not is_own_mask else _row_axis(query, key, placements, is_causal=is_causal)

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

    has_exchange = planned is not None and {planned.rows, planned.backward_rows} != {RowExchange.GATHERED}
    if planned is not None and axis is not None and has_exchange:
        how = ByRows(
            messages=RowMessages(query.device_mesh, axis),
            rows=planned.rows,
            backward_rows=planned.backward_rows,
            is_causal=is_causal,
            scale=keywords.get("scale") or 1 / math.sqrt(query.shape[-1]),
            mask=None if attn_mask is None else part(attn_mask, rows=True),
        )
        result = how.attend(*(part(operand, rows=True) for operand in (query, key, value)))
        return DTensor.from_local(result.contiguous(), query.device_mesh, placements)
    keys, values = part(key, rows=False), part(value, rows=False)
    mask = None if attn_mask is None else part(attn_mask, rows=True)
    if is_causal and any(isinstance(placement, Shard) and placement.dim == LENGTH for placement in placements):
        is_causal, first, rows = False, *_own_rows(query, placements)
        last = min(first + rows, keys.shape[LENGTH])  # later ones are hidden from all of these rows
        keys, values = keys[..., :last, :], values[..., :last, :]
        mask = torch.ones(rows, last, dtype=torch.bool, device=keys.device).tril(first)
    if dropout_p:
        shape = *query.shape[:-1], key.shape[LENGTH]
        factors = own_factors(functional.dropout, shape, dropout_p, query, placements)[..., : keys.shape[LENGTH]]
        result = dropping(part(query, rows=True), keys, values, mask, factors, is_causal=is_causal, **keywords)
    else:
        result = functional.scaled_dot_product_attention(
            part(query, rows=True), keys, values, mask, is_causal=is_causal, **keywords
        )
    return DTensor.from_local(result.contiguous(), query.device_mesh, placements)


def _placements(query: DTensor, key: DTensor, wanted: Sequence[Placement]) -> list[Placement]:
    """Return `wanted` where it splits batch, heads or rows and can split those of the keys too."""
    left = {BATCH: key.shape[BATCH], HEADS: key.shape[HEADS], LENGTH: query.shape[LENGTH]}
    result: list[Placement] = []
    for axis, placement in enumerate(wanted):
        size = query.device_mesh.size(axis)
        dimension = placement.dim if type(placement) is Shard else None
        if dimension in left and left[dimension] % size == 0:
            left[dimension] //= size
            result.append(Shard(dimension))
        else:
            result.append(Replicate())
    return result


def _row_axis(query: DTensor, key: DTensor, placements: list[Placement], *, is_causal: bool) -> int | None:
    """Return the one mesh axis that splits the rows of the query, and can split the keys alike; None: there is none."""
    axes = [
        axis for axis, placement in enumerate(placements) if isinstance(placement, Shard) and placement.dim == LENGTH
    ]
    is_square = query.shape[LENGTH] == key.shape[LENGTH]
    if len(axes) != 1 or (is_causal and not is_square) or key.shape[LENGTH] % query.device_mesh.size(axes[0]):
        return None
    return axes[0]


def _own_rows(query: DTensor, placements: list[Placement]) -> tuple[int, int]:
    """Return the first row of this device and how many it has."""
    first, rows = 0, query.shape[LENGTH]
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard) and placement.dim == LENGTH:
            rows //= query.device_mesh.size(axis)
            first += rows * query.device_mesh.get_local_rank(axis)
    return first, rows
