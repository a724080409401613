"""The stages of this device where stages lie on several devices: a two-level plan put together."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from evenflow.cluster import MeshPlan, plan_resharding, shape_of
from evenflow_torch.run.engine.stages import StageParts, StageSettings, weight_gradients
from evenflow_torch.run.mesh.exchange import StageExchange
from evenflow_torch.run.mesh.gathered import gather_around
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from evenflow_torch.run.mesh.mesh_stage import Links, MeshStage, OtherShape
from evenflow_torch.run.mesh.other_shapes import plan_for_shape
from evenflow_torch.run.mesh.stage_modules import MeshStageModule, shard_parameters


def mesh_stages(
    own: Sequence[StageParts],
    plan: MeshPlan,
    meshes: Sequence[DeviceMesh],
    boundaries: Sequence[Tensor],
    settings: StageSettings,
    parameters: MeshParameters,
    pipeline: dist.ProcessGroup,
) -> list[MeshStage]:
    """Return the stages on this device; `boundaries` are those of the unsplit model. Every process calls it.

    `parameters` are those of the stages, placed; layers wait for them, and backwards hand them their gradients.
    Device d of the plan is the process of rank d in `pipeline`.
    """
    alone = [dist.new_group([process]) for process in range(dist.get_world_size())][dist.get_rank()]
    me = dist.get_rank(pipeline)
    built = []
    for stage in own:
        on_mesh = plan.stages[stage.index]
        module = MeshStageModule(
            stage,
            settings.context,
            planned=on_mesh,
            mesh=meshes[stage.index],
            before_use=parameters.before_use,
            expert_capacity=plan.expert_capacity,
            seed=settings.seed,
            first_microbatch=settings.first_microbatch,
            recompute_modules=settings.recompute_modules,
        )
        taken, handed_over = boundaries[stage.index], boundaries[stage.index + 1]
        first, last = (boundary.element_size() for boundary in (taken, handed_over))
        built.append(
            MeshStage(
                module,
                rank=stage.rank,
                num_ranks=plan.num_ranks,
                parameters=parameters,
                gathered=gather_around(module, stage, on_mesh.gathered, parameters.before_use),
                links=_links(plan, stage.index, (first, last), pipeline),
                links_for=partial(_links_for, plan, stage.index, (first, last), pipeline),
                index=stage.index,
                num_stages=len(plan.stages),
                device=settings.device,
                # The batch is there on every device.
                example_input=_like(taken, shape_of(on_mesh.input.boxes[me])) if stage.index else taken,
                example_output=_like(handed_over, shape_of(on_mesh.output.boxes[me]))
                if on_mesh.output
                else _like(handed_over, (handed_over.shape[0] // module.num_output_parts, *handed_over.shape[1:])),
                weight_gradients=weight_gradients(stage),
                group=alone,
            )
        )
    return built


def place_parameters(stages: Sequence[StageParts], plan: MeshPlan, meshes: Sequence[DeviceMesh]) -> None:
    """Replace the parameters of this rank's stages by this device's parts."""
    for stage in stages:
        for part in stage.parts:
            shard_parameters(part, plan.stages[stage.index].parameters, meshes[stage.index])


def message_of(plan: MeshPlan, boundaries: Sequence[Tensor]) -> Tensor:
    """Return the tensor that the first device hands to the next stage, on meta: the same on all processes."""
    first = plan.stages[0]
    layout = first.output or first.input
    return _like(boundaries[1], shape_of(layout.boxes[first.devices[0]]))


def _links_for(
    plan: MeshPlan, index: int, item_bytes: tuple[int, int], pipeline: dist.ProcessGroup, shape: Sequence[int]
) -> OtherShape:
    """Return what a stage exchanges for microbatches of another shape; raise InputError where it cannot."""
    changed = plan_for_shape(plan, shape)
    stage, me = changed.stages[index], dist.get_rank(pipeline)
    return OtherShape(
        links=_links(changed, index, item_bytes, pipeline),
        taken=shape_of(stage.input.boxes[me]),
        handed_over=None if stage.output is None else shape_of(stage.output.boxes[me]),
    )


def _links(plan: MeshPlan, index: int, item_bytes: tuple[int, int], pipeline: dist.ProcessGroup) -> Links:
    """Return the exchanges of a stage; its neighbours plan the same messages, by the same sizes.

    `item_bytes` are those of what it takes, and of what it hands over.
    """

    def exchange(source: int, target: int, *, backward: bool) -> StageExchange | None:
        if not (source >= 0 and target < len(plan.stages)):
            return None
        before, after = plan.stages[source].output, plan.stages[target].input
        assert before is not None
        layouts = (after, before) if backward else (before, after)
        size = item_bytes[0] if source < index else item_bytes[1]
        sender, receiver = (replace(layout, item_bytes=size) for layout in layouts)
        return StageExchange(plan_resharding(sender, receiver, plan.cluster), pipeline)

    return Links(
        activations_in=exchange(index - 1, index, backward=False),
        activations_out=exchange(index, index + 1, backward=False),
        gradients_in=exchange(index, index + 1, backward=True),
        gradients_out=exchange(index - 1, index, backward=True),
    )


def _like(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
