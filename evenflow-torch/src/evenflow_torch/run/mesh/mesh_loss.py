"""The loss where the last stage lies on several devices."""

import torch.distributed as dist
from torch import Tensor

from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.mesh.local_parts import replicated
from evenflow_torch.run.mesh.stage_modules import MeshStageModule


class MeshLoss:
    """A loss function of this device's samples: its share of the microbatch's loss, a mean over samples."""

    def __init__(self, loss_fn: LossFunction, stage: MeshStageModule) -> None:
        self._loss_fn = loss_fn
        self._mesh = stage.mesh
        self._placements = stage.output_placements
        self._num_parts = stage.num_output_parts

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the share, from this device's output and the targets of the whole microbatch."""
        whole = replicated(target, self._mesh)
        return self._loss_fn(output, whole.redistribute(placements=self._placements).to_local()) / self._num_parts

    def total(self, share: Tensor) -> Tensor:
        """Return the loss from the shares of all devices, each of which calls it."""
        total = share.clone()
        for axis in range(self._mesh.ndim):
            dist.all_reduce(total, group=self._mesh.get_group(axis))
        return total * self._num_parts / self._mesh.size()
