"""Gradients of parameters that every replica has whole: their mean over the replicas, once a step.

Behind the last backward of a stage its sums begin, and the rest of the step goes on; they are waited for at its end.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.replicas.replicas import Replicas


class AveragedGradients:
    """The gradients of a rank that are averaged over the replicas of its stages.

    Gradients of earlier steps that parameters still hold are equal on all replicas, so that their mean leaves them as
    they are.
    """

    def __init__(
        self, of_stage: Mapping[int, Sequence[nn.Parameter]], of_several: Sequence[nn.Parameter], replicas: Replicas
    ) -> None:
        """`of_stage` are parameters of one stage alone, `of_several` those that several stages of the rank have."""
        self._of_stage = of_stage
        self._of_several = of_several
        self._replicas = replicas
        self._on_the_way: list[tuple[Tensor, dist.Work]] = []

    def stage_ended(self, stage: int) -> None:
        """Begin to sum the gradients of a stage, whose last backward has ended."""
        self._begin(self._of_stage.get(stage, ()))

    def finish(self) -> None:
        """Wait for the sums, and make them means."""
        self._begin(self._of_several)
        for gradient, work in self._on_the_way:
            work.wait()
            for group in self._replicas.groups[1:]:
                dist.all_reduce(gradient, group=group)
            gradient.div_(self._replicas.count)
        self._on_the_way.clear()

    def _begin(self, parameters: Sequence[nn.Parameter]) -> None:
        for parameter in parameters:
            if parameter.requires_grad:
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = gradient.contiguous()
                local = local_part(parameter.grad)
                self._on_the_way.append((local, dist.all_reduce(local, group=self._replicas.groups[0], async_op=True)))
