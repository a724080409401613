"""A tensor on its way to other placements, while the device goes on computing."""

from collections.abc import Sequence

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow.run.engine.torch_names import AsyncCollectiveTensor
from evenflow.run.mesh.stage_modules import placements


class Moving:
    """Collectives that bring a tensor to other placements; they are under way from the start.

    Where several are needed, all but the last are waited for.
    """

    def __init__(self, tensor: DTensor, placements: Sequence[Placement]) -> None:
        with torch.no_grad():
            self._tensor = tensor.detach().redistribute(placements=placements, async_op=True)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where it is brought."""
        return tuple(self._tensor.placements)

    def arrived(self) -> DTensor:
        """Wait until it is there, and return it."""
        tensor = self._tensor
        with torch.no_grad():
            local = tensor.to_local()
            if not isinstance(local, AsyncCollectiveTensor):
                return tensor
            return DTensor.from_local(
                local.wait(), tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride()
            )


class GradientSum:
    """The sum of a parameter's gradients over microbatches, the newest of which may be on its way."""

    def __init__(self) -> None:
        self._total: DTensor | None = None
        self._moving: Moving | None = None

    def add(self, gradient: DTensor, placements: Sequence[Placement]) -> None:
        """Add a gradient once it lies so; the one before must have arrived."""
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
    planned = placements([REPLICATE if where == PARTIAL else where for where in wanted])
    return [
        there if isinstance(here, Partial | Replicate) and where != PARTIAL else here
        for here, there, where in zip(gradient.placements, planned, wanted, strict=True)
    ]
