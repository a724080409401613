"""A rank's stages become one of several replicas."""

from collections.abc import Sequence

from torch import nn

from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.replicas.averaged_gradients import AveragedGradients
from evenflow_torch.run.replicas.replicas import Replicas
from evenflow_torch.run.replicas.sharded_layers import cannot_shard, shard_layers


def replicate(stages: Sequence[RuntimeStage], replicas: Replicas) -> AveragedGradients:
    """Let replicas share the parameters of the stages, if they do, and average the gradients of all others.

    A parameter that several layers or stages of a rank have, such as a tied embedding on it, stays whole.
    """
    homes: dict[int, set[int]] = {}
    uses: dict[int, int] = {}
    parameters: dict[int, nn.Parameter] = {}
    for stage in stages:
        for part in stage.submod.parts:
            for parameter in part.module.parameters():
                parameters[id(parameter)] = parameter
                homes.setdefault(id(parameter), set()).add(stage.stage_index)
                uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    whole = [
        parameter
        for key, parameter in parameters.items()
        if not replicas.is_sharded or uses[key] > 1 or cannot_shard(parameter)
    ]
    of_stage: dict[int, list[nn.Parameter]] = {stage.stage_index: [] for stage in stages}
    of_several = []
    for parameter in whole:
        if len(homes[id(parameter)]) > 1:
            of_several.append(parameter)
        else:
            of_stage[next(iter(homes[id(parameter)]))].append(parameter)
    averaged = AveragedGradients(of_stage, of_several, replicas)
    for stage in stages:
        if replicas.is_sharded:
            shard_layers(stage.submod, replicas, whole)
        stage.last_backward_ended = averaged.stage_ended
    return averaged
