"""This device's parts of DTensors, for kernels that know nothing of the others."""

from collections.abc import Sequence

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from evenflow.cluster import REPLICATED


def replicated(tensor: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return a tensor that is the same on all devices as a DTensor."""
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim)


def torch_placements(dimensions: Sequence[int]) -> list[Placement]:
    """Return torch's placements of a tensor that is split in these dimensions, one for each axis of the mesh."""
    return [Replicate() if dimension == REPLICATED else Shard(dimension) for dimension in dimensions]


def local_part(tensor: DTensor, wanted: Sequence[Placement], result: Sequence[Placement]) -> Tensor:
    """Return this device's part of `tensor` as `wanted`, for a result that is split as `result`.

    Where the tensor is whole and the result is not, every device has the gradient of its own part of the result alone.
    """
    local: Tensor = tensor.redistribute(placements=wanted).to_local(
        grad_placements=[_gradient(mine, theirs) for mine, theirs in zip(wanted, result, strict=True)]
    )
    if local.requires_grad:  # collectives give tensors in order, and views behind them expect the order of the gradient
        local.register_hook(Tensor.contiguous)
    return local


def whole_part(parameter: DTensor | None, result: Sequence[Placement]) -> Tensor | None:
    """Return all of a parameter, if there is one, for a result that is split as `result`."""
    return None if parameter is None else local_part(parameter, split_like(result, {}), result)


def split_like(placements: Sequence[Placement], dimensions: dict[int, int]) -> list[Placement]:
    """Return placements with dimensions renumbered by `dimensions`; whole along axes that split any other."""
    return [
        Shard(dimensions[placement.dim])
        if isinstance(placement, Shard) and placement.dim in dimensions
        else Replicate()
        for placement in placements
    ]


def _gradient(mine: Placement, theirs: Placement) -> Placement:
    return Partial() if isinstance(mine, Replicate) and isinstance(theirs, Shard) else mine
