"""A rank's stages become one of several replicas."""

from collections.abc import Sequence

from torch import nn

from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.replicas.averaged_gradients import AveragedGradients
from evenflow_torch.run.replicas.replicas import Replicas
from evenflow_torch.run.replicas.sharded_layers import shard_layers, stay_whole


def replicate(stages: Sequence[RuntimeStage], replicas: Replicas) -> AveragedGradients:
    """Let replicas share the parameters of the stages, if they do, and average the gradients of all others.

    A parameter that several layers or stages of a rank have, such as a tied embedding on it, stays whole.
    """
    homes: dict[nn.Parameter, list[int]] = {}
    """Stages of every part that has a parameter."""
    unsplittable: set[nn.Parameter] = set()
    for stage in stages:
        for part in stage.submod.parts:
            unsplittable.update(stay_whole(part.module))
            for parameter in part.module.parameters():
                homes.setdefault(parameter, []).append(stage.stage_index)
    whole = [
        parameter
        for parameter, used in homes.items()
        if not replicas.is_sharded or len(used) > 1 or parameter in unsplittable
    ]
    of_stage: dict[int, list[nn.Parameter]] = {stage.stage_index: [] for stage in stages}
    of_several: list[nn.Parameter] = []
    for parameter in whole:
        first, *others = set(homes[parameter])
        (of_several if others else of_stage[first]).append(parameter)
    averaged = AveragedGradients(of_stage, of_several, replicas)
    for stage in stages:
        if replicas.is_sharded:
            shard_layers(stage.submod, replicas, whole)
        stage.last_backward_ended = averaged.stage_ended
    return averaged
