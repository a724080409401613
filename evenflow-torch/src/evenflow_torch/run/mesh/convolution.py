"""Convolutions on DTensors: samples are independent; channels that come out, or go in, are split as in a product.

DTensor's own handler fails where two mesh axes split the samples, and gathers channels.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.nn import functional

from evenflow_torch.run.mesh.local_parts import local_part, split_like, whole_part

BATCH, CHANNELS = 0, 1
WHOLE = Replicate()
GIVEN, TAKEN = Shard(0), Shard(1)
"""Dimensions of the filters: the channels that come out, and those that go in."""


def convolution(
    kernel: Callable[..., Tensor],
    tensor: DTensor,
    weight: DTensor,
    bias: DTensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> DTensor:
    """Run ``kernel``, a convolution of `torch.nn.functional`, on this device's part.

    Where the input is split by samples, or by channels, this is kept; where it is whole, the filters' split is.
    """
    inputs: list[Placement] = []
    filters: list[Placement] = []
    biases: list[Placement] = []
    results: list[Placement] = []
    parts = 1
    for axis, (of_input, of_weight) in enumerate(zip(tensor.placements, weight.placements, strict=True)):
        if of_input == Shard(BATCH):
            chosen: tuple[Placement, ...] = (of_input, WHOLE, WHOLE, of_input)
        elif of_input == Shard(CHANNELS) and groups == tensor.shape[CHANNELS]:  # each channel has filters of its own
            chosen = (of_input, GIVEN, GIVEN, of_input)
            parts *= tensor.device_mesh.size(axis)
        elif of_input == Shard(CHANNELS) and groups == 1 and bias is None:
            chosen = (of_input, TAKEN, WHOLE, Partial())
        elif of_weight == GIVEN and groups == 1:
            chosen = (WHOLE, GIVEN, GIVEN, Shard(CHANNELS))
        else:
            chosen = (WHOLE, WHOLE, WHOLE, WHOLE)
        for row, placement in zip((inputs, filters, biases, results), chosen, strict=True):
            row.append(placement)
    result = kernel(
        local_part(tensor, inputs, results),
        local_part(weight, filters, results),
        None if bias is None else local_part(bias, biases, results),
        stride,
        padding,
        dilation,
        groups // parts,
    )
    return DTensor.from_local(result.contiguous(), tensor.device_mesh, results)


def transposed_convolution(
    kernel: Callable[..., Tensor],
    tensor: DTensor,
    weight: DTensor,
    bias: DTensor | None = None,
    *others: Any,
    **more: Any,
) -> DTensor:
    """Run ``kernel``, a transposed convolution, on this device's samples."""
    placements = split_like(tensor.placements, {BATCH: BATCH})
    result = kernel(
        local_part(tensor, placements, placements),
        whole_part(weight, placements),
        whole_part(bias, placements),
        *others,
        **more,
    )
    return DTensor.from_local(result.contiguous(), tensor.device_mesh, placements)


KERNELS: dict[Any, Callable[..., DTensor]] = {
    **dict.fromkeys((functional.conv1d, functional.conv2d, functional.conv3d), convolution),
    **dict.fromkeys(
        (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d), transposed_convolution
    ),
}
