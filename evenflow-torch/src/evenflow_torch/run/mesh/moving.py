"""A tensor on its way to other placements, while the device goes on computing."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.run.engine.torch_names import AsyncCollectiveTensor
from evenflow_torch.run.mesh.local_parts import torch_placements


class Moving:
    """Collectives that bring a tensor to other placements; they are under way from the start.

    Where several are needed, all but the last are waited for.
    """

    def __init__(self, tensor: DTensor, placements: Sequence[Placement]) -> None:
        self._source = tensor.detach()  # kept until it is there: a collective may still read it
        with torch.no_grad():
            self._tensor = self._source.redistribute(placements=placements, async_op=True)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placements that the tensor is brought to."""
        return tuple(self._tensor.placements)

    def arrived(self) -> DTensor:
        """Wait for the tensor in its new placements, and return it."""
        tensor = self._tensor
        with torch.no_grad():
            local = tensor.to_local()
            if not isinstance(local, AsyncCollectiveTensor):
                return tensor
            return DTensor.from_local(
                local.wait(), tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride()
            )


class Gather:
    """A collective that makes a tensor whole along one axis of its mesh, whichever dimension that splits."""

    def __init__(self, tensor: DTensor, axis: int, dimension: int) -> None:
        """All devices of the axis have parts of the same size, and no other axis splits the dimension."""
        self._tensor, self._axis, self._dimension = tensor.detach(), axis, dimension
        mesh = tensor.device_mesh
        with torch.no_grad():
            self._part = self._tensor.to_local().contiguous()  # kept, as is the result, until it is there
            self._parts = self._part.new_empty(mesh.size(axis) * self._part.shape[0], *self._part.shape[1:])
        self._work = dist.all_gather_single(self._parts, self._part, group=mesh.get_group(axis), async_op=True)

    def arrived(self) -> DTensor:
        """Wait for the whole tensor, and return it in memory of its own."""
        self._work.wait()
        tensor, at = self._tensor, self._dimension
        placements = [Replicate() if axis == self._axis else own for axis, own in enumerate(tensor.placements)]
        with torch.no_grad():
            size = tensor.device_mesh.size(self._axis)
            local = self._parts.unflatten(0, (size, len(self._part))).movedim(0, at).flatten(at, at + 1)
            return DTensor.from_local(
                local.contiguous(), tensor.device_mesh, placements, shape=tensor.shape, stride=tensor.stride()
            )


def gathering(tensor: DTensor, placements: Sequence[Placement]) -> Gather | Moving:
    """Begin to bring a tensor to other placements; a single gather does not wait, whichever dimension it joins."""
    changed = [axis for axis, own in enumerate(tensor.placements) if own != placements[axis]]
    if len(changed) == 1:
        (axis,) = changed
        own = tensor.placements[axis]
        if type(own) is Shard and placements[axis] == Replicate():
            others = [
                placement
                for placement in tensor.placements
                if isinstance(placement, Shard) and placement.dim == own.dim
            ]
            if len(others) == 1 and tensor.shape[own.dim] % tensor.device_mesh.size(axis) == 0:
                return Gather(tensor, axis, own.dim)
    return Moving(tensor, placements)


class GradientSum:
    """The sum of a parameter's gradients over microbatches, the newest of which may be on its way."""

    def __init__(self) -> None:
        self._total: DTensor | None = None
        self._moving: Moving | None = None

    def add(self, gradient: DTensor, placements: Sequence[Placement]) -> None:
        """Add a gradient, brought to `placements` first; the one before must have arrived."""
        self._collect()
        self._moving = Moving(gradient, placements)

    def bring_to(self, placements: Sequence[Placement]) -> None:
        """Bring the sum to other placements."""
        parts = [part.placements for part in (self._total, self._moving) if part is not None]
        if all(tuple(part) == tuple(placements) for part in parts):
            return
        self._collect()
        if self._total is not None and self._total.placements != tuple(placements):
            self._moving, self._total = Moving(self._total, placements), None

    def arrived(self) -> DTensor | None:
        """Wait for what is on its way, and return the sum; None where nothing was added."""
        self._collect()
        return self._total

    def _collect(self) -> None:
        if self._moving is not None:
            newest, self._moving = self._moving.arrived(), None
            with torch.no_grad():
                self._total = newest if self._total is None else self._total.add_(newest)


def summed_at(gradient: DTensor, wanted: Sequence[int]) -> list[Placement]:
    """Return the placements in which a gradient is summed: as it comes, but `wanted` where that is no partial sum."""
    planned = torch_placements([REPLICATE if dimension == PARTIAL else dimension for dimension in wanted])
    return [
        there if isinstance(here, Partial | Replicate) and dimension != PARTIAL else here
        for here, there, dimension in zip(gradient.placements, planned, wanted, strict=True)
    ]
