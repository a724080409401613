"""A tensor on its way to other placements, while the device goes on computing."""

from collections.abc import Sequence

import torch
from torch.distributed.tensor import DTensor, Placement

from evenflow.run.engine.torch_names import AsyncCollectiveTensor


class Moving:
    """Collectives that bring a tensor to other placements; they are under way from the start.

    Where several are needed, all but the last are waited for.
    """

    def __init__(self, tensor: DTensor, placements: Sequence[Placement]) -> None:
        with torch.no_grad():
            self._tensor = tensor.detach().redistribute(placements=placements, async_op=True)

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
