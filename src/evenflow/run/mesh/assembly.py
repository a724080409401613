"""This device's part of a pipeline whose stages lie on several devices: a two-level plan put together."""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from evenflow.cluster.layout import shape_of
from evenflow.cluster.mesh_plan import MeshPlan, StageOnMesh
from evenflow.cluster.placement import WholeTensor, code, is_even
from evenflow.cluster.resharding import plan_resharding
from evenflow.errors import InputError
from evenflow.run.engine.runtime import LossFunction
from evenflow.run.engine.stages import StageParts, StageSettings, weight_builder
from evenflow.run.mesh.attention import replicated
from evenflow.run.mesh.exchange import Exchange
from evenflow.run.mesh.mesh_stage import Links, MeshStage
from evenflow.run.mesh.stage_modules import MeshStageModule, shard_parameters
from evenflow.torch_model.parts import ModelRow


def check_mesh_plan(
    plan: MeshPlan, model: ModelRow, stages: Sequence[StageParts], boundaries: Sequence[Tensor]
) -> None:
    """Refuse a plan of other stages, another model or another microbatch, of which `boundaries` have the shapes.

    Raises:
        InputError: says what differs.
    """
    if len(plan.stages) != len(stages):
        raise InputError(value=len(plan.stages), rule=f"the pipeline has {len(stages)} stages", place="plan, stages")
    for stage, where in zip(stages, plan.stages, strict=True):
        if stage.rank != where.rank:
            raise InputError(
                value=where.rank, rule=f"stage {stage.index} is on rank {stage.rank}", place="plan, stages"
            )
        given, planned = tuple(boundaries[stage.index].shape), where.input.shape
        if given != planned:
            raise InputError(
                value=list(given),
                rule=f"what comes into stage {stage.index} has the shape that the plan was made for, {list(planned)}",
                place="microbatch" if stage.index == 0 else "model",
                remedy="run the model, the sequences and the microbatch of the plan, or plan for these",
            )
        _check_parameters(stage, where)
    for name, module in model.whole.named_modules():
        if (isinstance(module, nn.Dropout) and module.p > 0) or getattr(module, "attention_dropout", 0):
            raise InputError(
                value=name,
                rule="a stage on several devices has no dropout: its random numbers would depend on the placement",
                place="model",
                remedy="set dropout to 0",
            )


def _check_parameters(stage: StageParts, where: StageOnMesh) -> None:
    shapes = {
        name: tuple(parameter.shape)
        for part in stage.parts
        for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False)
    }
    other = sorted(shapes.keys() ^ where.parameters.keys())
    if other:
        whose = "model" if other[0] in shapes else "plan"
        raise InputError(
            value=other[0],
            rule=f"plan and model have the same parameters in stage {stage.index}, and this one is only in the {whose}",
            place="plan, stages",
            remedy="run the model that the plan was made for",
        )
    for name, shape in shapes.items():
        placement = where.parameters[name]
        if not is_even(WholeTensor(shape=shape, item_bytes=1), placement, where.mesh):
            raise InputError(
                value=code(placement),
                rule=f"{name} of shape {shape} is split into equal parts on the {where.mesh} devices of its stage",
                place="plan, stages",
                remedy="run the model that the plan was made for",
            )


def mesh_stages(
    own: Sequence[StageParts],
    plan: MeshPlan,
    meshes: Sequence[DeviceMesh],
    boundaries: Sequence[Tensor],
    settings: StageSettings,
) -> list[MeshStage]:
    """The runtime's stages on this device; `boundaries` are as of the unsplit model. Every process calls it."""
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    me = dist.get_rank()
    built = []
    for stage in own:
        where = plan.stages[stage.index]
        module = MeshStageModule(
            stage,
            settings.context,
            where=where,
            mesh=meshes[stage.index],
            seed=settings.seed,
            recompute_modules=settings.recompute_modules,
        )
        taken, given = boundaries[stage.index], boundaries[stage.index + 1]
        built.append(
            MeshStage(
                module,
                rank=stage.rank,
                num_ranks=plan.num_ranks,
                links=_links(plan, stage.index, taken.element_size()),
                index=stage.index,
                num_stages=len(plan.stages),
                device=settings.device,
                # The batch is there on every device.
                example_input=_like(taken, shape_of(where.input.boxes[me])) if stage.index else taken,
                example_output=_like(given, shape_of(where.output.boxes[me]))
                if where.output
                else _like(given, (given.shape[0] // module.num_output_parts, *given.shape[1:])),
                weight_builder=weight_builder(stage),
                observer=settings.observer,
                group=groups[me],
            )
        )
    return built


def place_parameters(stages: Sequence[StageParts], plan: MeshPlan, meshes: Sequence[DeviceMesh]) -> None:
    """Replace the parameters of this rank's stages by this device's parts."""
    for stage in stages:
        for part in stage.parts:
            shard_parameters(part, plan.stages[stage.index].parameters, meshes[stage.index])


def message_of(plan: MeshPlan, boundaries: Sequence[Tensor]) -> Tensor:
    """What the first device hands to the next stage, on the meta device: on all processes the same."""
    first = plan.stages[0]
    layout = first.output or first.input
    return _like(boundaries[1], shape_of(layout.boxes[first.devices[0]]))


def _links(plan: MeshPlan, index: int, item_bytes: int) -> Links:
    def exchange(source: int, target: int, *, backward: bool) -> Exchange | None:
        if not (source >= 0 and target < len(plan.stages)):
            return None
        before, after = plan.stages[source].output, plan.stages[target].input
        assert before is not None
        layouts = (after, before) if backward else (before, after)
        sender, receiver = (replace(one, item_bytes=item_bytes) for one in layouts)
        return Exchange(plan_resharding(sender, receiver, plan.cluster))

    return Links(
        activations_in=exchange(index - 1, index, backward=False),
        activations_out=exchange(index, index + 1, backward=False),
        gradients_in=exchange(index, index + 1, backward=True),
        gradients_out=exchange(index - 1, index, backward=True),
    )


def _like(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)


class MeshLoss:
    """The loss of this device's samples as a share of that of the microbatch, a mean over samples."""

    def __init__(self, loss_fn: LossFunction, stage: MeshStageModule) -> None:
        self._loss_fn = loss_fn
        self._mesh = stage.mesh
        self._placements = stage.output_placements
        self._num_parts = stage.num_output_parts

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """Of this device's output and the targets of the whole microbatch."""
        whole = replicated(target, self._mesh)
        return self._loss_fn(output, whole.redistribute(placements=self._placements).to_local()) / self._num_parts

    def total(self, share: Tensor) -> Tensor:
        """The loss, from the shares of all devices; each of them calls it."""
        total = share.clone()
        for axis in range(self._mesh.ndim):
            dist.all_reduce(total, group=self._mesh.get_group(axis))
        return total * self._num_parts / self._mesh.size()
