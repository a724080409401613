"""Messages between the devices of a mesh axis that hold different rows of the same attention."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from evenflow_torch.run.mesh.attention.row_pieces import first_half

LENGTH = 2
_TAG = 17
"""Keeps these messages apart from those between stages."""


class OnTheWay:
    """Tensors that arrive while the device computes; what is sent must not change before that."""

    def __init__(self, requests: Sequence[dist.Work], sent: Sequence[Tensor], received: Sequence[Tensor]) -> None:
        self._requests, self._sent, self._received = requests, sent, received

    def arrived(self) -> list[Tensor]:
        """Wait for the tensors, and return them."""
        for request in self._requests:
            request.wait()
        return list(self._received)


class RowMessages:
    """The devices of one mesh axis, in order."""

    def __init__(self, mesh: DeviceMesh, axis: int) -> None:
        self.device, self.num_devices = mesh.get_local_rank(axis), mesh.size(axis)
        self._group = mesh.get_group(axis)
        self._ranks = dist.get_process_group_ranks(self._group)

    def to_next(self, tensors: Sequence[Tensor]) -> OnTheWay:
        """Send tensors to the next device, and get those of the one before."""
        return self._exchange(tensors, self.device + 1, self.device - 1)

    def mirrored(self, *tensors: Tensor) -> list[Tensor]:
        """Exchange the second half of the rows of every tensor with the mirror image; twice undoes it."""
        mirror = self.num_devices - 1 - self.device
        half = first_half(tensors[0].shape[LENGTH])
        if mirror == self.device or half == tensors[0].shape[LENGTH]:
            return list(tensors)
        arrived = self._exchange([own[:, :, half:] for own in tensors], mirror, mirror).arrived()
        return [torch.cat([own[:, :, :half], other], LENGTH) for own, other in zip(tensors, arrived, strict=True)]

    def gathered(self, tensor: Tensor) -> Tensor:
        """Return the rows of all devices, in order."""
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.num_devices)]
        dist.all_gather(parts, tensor.contiguous(), group=self._group)
        return torch.cat(parts, LENGTH)

    def summed(self, tensor: Tensor) -> Tensor:
        """Return the sum of all devices' tensors for this device's rows."""
        parts = [part.contiguous() for part in tensor.chunk(self.num_devices, LENGTH)]
        result = torch.empty_like(parts[0])
        dist.reduce_scatter(result, parts, group=self._group)
        return result

    def _exchange(self, tensors: Sequence[Tensor], to: int, source: int) -> OnTheWay:
        sent = [tensor.contiguous() for tensor in tensors]
        received = [torch.empty_like(tensor) for tensor in sent]
        receiver, sender = (self._ranks[device % self.num_devices] for device in (to, source))
        posts = [dist.P2POp(dist.isend, tensor, receiver, group=self._group, tag=_TAG) for tensor in sent]
        posts += [dist.P2POp(dist.irecv, tensor, sender, group=self._group, tag=_TAG) for tensor in received]
        return OnTheWay(dist.batch_isend_irecv(posts), sent, received)
