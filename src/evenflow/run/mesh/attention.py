"""Attention on DTensors: batch and heads are independent, so every device runs the ordinary kernel on its part.

torch has no rule for the CPU's kernel, and those of others give results in an order of memory that depends on the sizes
of the parts, which views behind it do not expect.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from evenflow.run.mesh.experts import compute_experts
from evenflow.torch_model.experts.library import as_one_operator

BATCH, HEADS = 0, 1


@contextmanager
def on_mesh() -> Iterator[None]:
    """Let modules compute with DTensors inside; tensors that they make themselves are the same on all devices."""
    with implicit_replication(), as_one_operator(compute_experts), _LocalAttention():
        yield


def replicated(tensor: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return a tensor that is the same on all devices as a DTensor."""
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim)


class _LocalAttention(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.scaled_dot_product_attention and any(isinstance(tensor, DTensor) for tensor in args):
            return _attention(*args, **(kwargs or {}))
        # The backward comes later and takes no tensor that is not distributed.
        return func(*_alike(args), **(kwargs or {}))


def _alike(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return tensors of which, if one is distributed, all are."""
    mesh = next((one.device_mesh for one in tensors if isinstance(one, DTensor)), None)
    return tuple(
        replicated(one, mesh) if mesh is not None and isinstance(one, Tensor) and not isinstance(one, DTensor) else one
        for one in tensors
    )


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *others: Any, **keywords: Any) -> DTensor:
    """Compute attention of [batch, heads, length, width]; key and value may have fewer heads, a mask one for all."""
    mesh = next(tensor.device_mesh for tensor in (query, key, value) if isinstance(tensor, DTensor))
    query, key, value, mask = (
        replicated(tensor, mesh) if isinstance(tensor, Tensor) and not isinstance(tensor, DTensor) else tensor
        for tensor in (query, key, value, attn_mask)
    )
    placements = _placements(query, key)

    def part(tensor: DTensor) -> Tensor:
        def is_split(placement: Placement) -> bool:
            return isinstance(placement, Shard) and tensor.ndim == query.ndim and tensor.shape[placement.dim] > 1

        wanted = [placement if is_split(placement) else Replicate() for placement in placements]
        local: Tensor = tensor.redistribute(placements=wanted).to_local(
            # Where the tensor is whole, every device has the gradient of its own part of batch or heads.
            grad_placements=[_gradient(mine, theirs) for mine, theirs in zip(wanted, placements, strict=True)]
        )
        return local

    result = functional.scaled_dot_product_attention(
        part(query), part(key), part(value), None if mask is None else part(mask), *others, **keywords
    )
    return DTensor.from_local(result.contiguous(), mesh, placements)


def _placements(query: DTensor, key: DTensor) -> list[Placement]:
    """Return the query's placements where they split batch or heads and can split those of the keys too."""
    left = {BATCH: key.shape[BATCH], HEADS: key.shape[HEADS]}
    result: list[Placement] = []
    for axis, placement in enumerate(query.placements):
        size = query.device_mesh.size(axis)
        dimension = placement.dim if isinstance(placement, Shard) else None
        if dimension in left and left[dimension] % size == 0:
            left[dimension] //= size
            result.append(Shard(dimension))
        else:
            result.append(Replicate())
    return result


def _gradient(mine: Placement, theirs: Placement) -> Placement:
    return Partial() if isinstance(mine, Replicate) and isinstance(theirs, Shard) else mine
