"""Stages whose parameters replicas share: torch's fully sharded data parallelism, layer by layer. [arXiv:2304.11277]

    before its first action    the parameters of a stage are gathered, and stay whole while it works
    every backward             adds to gradients of whole parameters, without a message
    behind the last backward   they are reduced, each process keeps its share of their mean, and of the parameters

The order of these is torch's, which puts them between the actions of a rank.
"""

import warnings
from collections import Counter
from collections.abc import Collection

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from evenflow_torch.run.engine.stages import StageModule
from evenflow_torch.run.replicas.replicas import Replicas

_VIEW_WARNING = "FSDP2-wrapped module .* returned"
"""Of results that somebody could change in place before their layer knows; stages hand them on as they are."""


def shard_layers(module: StageModule, replicas: Replicas, whole: Collection[nn.Parameter]) -> None:
    """Let replicas share the parameters of a stage, in place, but for those that stay `whole`."""
    warnings.filterwarnings("ignore", message=_VIEW_WARNING, category=UserWarning)
    ignored = set(whole)
    for part in module.parts:
        if any(parameter not in ignored for parameter in part.module.parameters()):
            fully_shard(part.module, mesh=replicas.data, reshard_after_forward=False, ignored_params=ignored)
    fully_shard(module, mesh=replicas.data, reshard_after_forward=False, ignored_params=ignored)
    sharded: FSDPModule = module
    sharded.set_reduce_scatter_unused_params(True)  # else replicas whose experts differ would not fit together
    sharded.set_requires_gradient_sync(False)
    sharded.set_reshard_after_backward(False)
    sharded.set_is_last_backward(False)


def stay_whole(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a module that torch cannot split.

    They are single numbers, those whose numbers do not lie in order, and those of another type than most numbers have:
    torch gathers a module in one message.
    """
    numbers: Counter[torch.dtype] = Counter()
    for parameter in module.parameters():
        numbers[parameter.dtype] += parameter.numel()
    return [
        parameter
        for parameter in module.parameters()
        if parameter.dim() == 0
        or not parameter.is_contiguous()
        or parameter.dtype != max(numbers, key=lambda kind: numbers[kind])
    ]
