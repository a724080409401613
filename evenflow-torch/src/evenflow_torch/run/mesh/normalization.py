"""Batch and group norm on DTensors whose samples are split: every device normalizes its own.

The statistics of batch norm are those of a device's own samples, as in torch's data parallelism, and so are the running
ones, which devices keep apart.
"""

from torch.distributed.tensor import DTensor, Placement
from torch.nn import functional

from evenflow_torch.run.mesh.local_parts import local_part, split_like, whole_part

BATCH = 0


def batch_norm(
    tensor: DTensor,
    running_mean: DTensor | None,
    running_var: DTensor | None,
    weight: DTensor | None = None,
    bias: DTensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> DTensor:
    """Run `torch.nn.functional.batch_norm` on this device's samples."""
    placements = _samples(tensor)
    result = functional.batch_norm(
        local_part(tensor, placements, placements),
        None if running_mean is None else running_mean.to_local(),  # updated in place
        None if running_var is None else running_var.to_local(),
        whole_part(weight, placements),
        whole_part(bias, placements),
        training,
        momentum,
        eps,
    )
    return DTensor.from_local(result, tensor.device_mesh, placements)


def group_norm(
    tensor: DTensor,
    num_groups: int,
    weight: DTensor | None = None,
    bias: DTensor | None = None,
    eps: float = 1e-5,
) -> DTensor:
    """Run `torch.nn.functional.group_norm` on this device's samples."""
    placements = _samples(tensor)
    result = functional.group_norm(
        local_part(tensor, placements, placements),
        num_groups,
        whole_part(weight, placements),
        whole_part(bias, placements),
        eps,
    )
    return DTensor.from_local(result, tensor.device_mesh, placements)


def _samples(tensor: DTensor) -> list[Placement]:
    return split_like(tensor.placements, {BATCH: BATCH})
