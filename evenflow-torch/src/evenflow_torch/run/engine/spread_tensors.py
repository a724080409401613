"""Tensors that lie on several devices, this device's part of them, and the way back."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor


def local_part(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that is on this device; a tensor on one device is all of it."""
    if not isinstance(tensor, DTensor):
        return tensor
    local: Tensor = tensor.to_local()  # first: masked parts of a sum take no operator on the whole
    return local.detach()


def storage_address(tensor: Tensor) -> int:
    """Return the address of the memory of this device's part."""
    return local_part(tensor).untyped_storage().data_ptr()


def spreading(tensor: Tensor) -> Callable[[Tensor], Tensor]:
    """Return what makes, of a part on this device, a tensor that lies as `tensor`, which it does not keep."""
    if not isinstance(tensor, DTensor):
        return as_it_is
    mesh, placements, shape, stride = tensor.device_mesh, tensor.placements, tensor.shape, tensor.stride()
    return lambda local: DTensor.from_local(local, mesh, placements, shape=shape, stride=stride)


def as_it_is(value: Any) -> Any:
    """Return the value."""
    return value


def copied(tensor: Tensor) -> Tensor:
    """Return a copy that lies as `tensor`; torch's own copy of a partial sum adds the parts up."""
    return spreading(tensor)(local_part(tensor).clone())
