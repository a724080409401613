"""From a plan and a model to a pipeline: the function `evenflow.run.pipeline`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from evenflow.cluster import MeshPlan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import RECOMPUTE_PARTS, HostLink, Plan
from evenflow_torch.models.checkpointing import Patterns
from evenflow_torch.models.exported.layer_groups import EVEN_LAYERS_PER_DEVICE
from evenflow_torch.models.exported.traced import traced_row
from evenflow_torch.models.made_buffers import make_buffers
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.rows import as_row, is_known
from evenflow_torch.run.assembly.batches import Batch, BatchReader, first_microbatch, split_form
from evenflow_torch.run.assembly.pipeline import Pipeline, RankStages
from evenflow_torch.run.engine.loss_shares import LossWeight
from evenflow_torch.run.engine.order import check_keepers, check_world, runnable_order
from evenflow_torch.run.engine.packing import Boundary
from evenflow_torch.run.engine.recompute_layers import check_kinds, is_on_host
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.shared_parameters import SharedParameters, names_of, repeated_names, share
from evenflow_torch.run.engine.stages import (
    StageModule,
    StageParts,
    StageSettings,
    boundary_shapes,
    cut,
    weight_gradients,
)
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from evenflow_torch.run.mesh.mesh_plan_check import check_mesh_plan
from evenflow_torch.run.mesh.mesh_stages import mesh_stages, message_of, place_parameters
from evenflow_torch.run.mesh.stage_modules import MeshLoss, device_meshes
from evenflow_torch.run.replicas.averaged_gradients import AveragedGradients
from evenflow_torch.run.replicas.replicas import Replicas, replicas_of
from evenflow_torch.run.replicas.replicate import replicate
from evenflow_torch.run.values.run_job import RANK_TIMEOUT_SECONDS
from evenflow_torch.run.watch.rank_watch import rank_watch


def pipeline(
    plan: Plan,
    model: nn.Module | Sequence[nn.Module] | ModelRow,
    loss_fn: LossFunction | None,
    example_batch: Batch,
    *,
    loss_weight: LossWeight | None = None,
    mesh: DeviceMesh | None = None,
    parallelize: Callable[[Mapping[str, nn.Module]], None] | None = None,
    mesh_plan: MeshPlan | None = None,
    host_link: HostLink | None = None,
    device: torch.device | str = "cpu",
    seed: int | None = None,
    head_modules: int = 0,
    tail_modules: int = 0,
    recompute_modules: Patterns = RECOMPUTE_PARTS,
    rank_timeout_s: float = RANK_TIMEOUT_SECONDS,
    weights: Path | str | None = None,
) -> Pipeline:
    """Return this rank's part of `model` as `plan` cuts it; call it on every rank, after ``init_process_group``.

    The modules of this rank's stages are taken over: moved to `device` and changed in place where they recompute or
    leave weight gradients for later. Other modules are not touched and may be on the meta device. The model, and the
    seed of the random numbers that made it, are the same on every rank.

    Args:
        plan: its number of ranks is the world size, or that of a pipeline in `mesh`; its own order of work is run if
            it has one.
        model: any module that torch.export takes, which is cut into the layers of the plan; or modules in order, see
            `evenflow.run.as_row`, as for `head_modules` and `tail_modules`.
        loss_fn: ``loss_fn(output, target)`` of one microbatch, a mean over its samples; with `loss_weight` a sum. None
            where the model itself returns such a loss.
        example_batch: inputs and targets, of which only shapes and types matter; without a `loss_fn` inputs alone.
            Inputs are a tensor, or, as the model takes them, a tuple of arguments or a dict. What has as many entries
            in its first dimension as there are samples is split into the plan's microbatches.
        loss_weight: ``loss_weight(target)``, what one microbatch counts, such as the number of its tokens that are no
            padding. `loss_fn` is a sum over these, and the loss of a step is the sum of all over what counts in all.
            Without a `loss_fn` it is given the inputs.
        mesh: the processes of the training, by default one pipeline of all. Along its dimension ``pp`` stand the ranks
            of a pipeline. Along ``dp_shard``, or ``dp``, replicas share the parameters of their stages, which are
            gathered layer by layer (torch's `fully_shard`); along ``dp_replicate`` they have copies; with both it is
            hybrid. Each replica takes batches of its own, and gradients are means over all, made once a step. With a
            `mesh_plan` it stands for all its devices along ``pp``, and has ``dp_replicate`` alone beside.
        parallelize: is given the modules of each stage of this rank by their names in the unsplit model, and changes
            them in place, as with ``torch.distributed.tensor.parallel.parallelize_module``, before replicas share them.
            Stages take and hand over plain tensors, equal on all devices of a stage.
        mesh_plan: where every stage lies, if on several devices: of ``evenflow auto`` (`AutoPlan.mesh_plan`, or
            `evenflow.profiles.mesh_plan_file.parse_mesh_plan`). A pipeline has as many processes as it has devices, the
            parameters become DTensors, and the first dimension of the batch counts for all devices of a stage together.
        host_link: when what layers keep on the host moves, as in the network that was planned
            (`evenflow.read_host_link` of a plan file). Without it, it moves layer by layer, back one layer ahead. None
            of it may wait with another rank.
        seed: makes dropout the same however the model is split. Without it, random numbers come as they come.
        recompute_modules: glob patterns of the sub-modules that each kind but ``full`` runs again, by their names in a
            layer; see `evenflow.model.recompute_parts`.
        weights: a folder of Hugging Face with safetensors, of which each rank reads its own parameters; the model may
            be on the meta device then, but for buffers that no file has.
        rank_timeout_s: under torchrun, seconds without a sign of life of a rank after which those that wait for it end
            with its name. A call that keeps the interpreter's lock for longer counts as a stop on other machines.

    Raises:
        InputError: plan, model, batch and world size do not fit.
    """
    schedule = runnable_order(plan)
    check_keepers(host_link)
    example_inputs = split_form(example_batch, has_loss=loss_fn is not None, place=_("example batch"))[0]
    if isinstance(model, ModelRow):
        row = model
    elif isinstance(model, nn.Module) and not is_known(model, loss_fn, example_inputs):
        row = _traced(plan, model, example_inputs, mesh_plan, torch.device(device))
    else:
        row = as_row(model, head_modules=head_modules, tail_modules=tail_modules)
    if not dist.is_initialized():
        raise InputError(
            rule=_("must be initialised first"),
            place="torch.distributed",
            remedy=_("start the ranks with torchrun and call torch.distributed.init_process_group"),
        )
    replicas = replicas_of(mesh)
    check_world(plan, replicas.pipeline.size(), mesh_plan, place=None if mesh is None else _("mesh, dimension pp"))
    stages = cut(row, plan, schedule)
    patterns = {**RECOMPUTE_PARTS, **recompute_modules}
    check_kinds(plan, row.body, patterns)
    if row.traced is not None:
        _check_traced(head_modules=head_modules, tail_modules=tail_modules, parallelize=parallelize)
    reader = BatchReader(row, has_loss=loss_fn is not None)
    samples = reader.read(example_batch, place=_("example batch"))
    microbatch_of(samples.hidden, plan, place=_("example batch, inputs"))
    if loss_fn is not None and isinstance(samples.targets, Tensor):
        microbatch_of(samples.targets, plan, place=_("example batch, targets"))
    empty_buffers = False
    if weights is not None:
        filled = dist.get_rank(replicas.pipeline) if mesh_plan is None else None
        empty_buffers = _materialise(row, stages, torch.device(device), filled)
    example = samples.split(plan.num_microbatches)[0]
    boundaries = boundary_shapes(stages, row.context, example.hidden, example.named)
    settings = StageSettings(
        context=row.context,
        seed=seed,
        recompute_modules=patterns,
        device=torch.device(device),
        shared=row.shared,
        first_microbatch=replicas.index * plan.num_microbatches,
    )
    loss = loss_fn or _own_loss
    if mesh_plan is None:
        rank_stages = _on_one_device(stages, boundaries, settings, loss, replicas, parallelize, reader)
    else:
        _check_replicas_of_devices(replicas, parallelize)
        if loss_fn is None:
            raise InputError(
                rule=_("must be given with a mesh_plan, whose devices have a part of the samples each"),
                place="loss_fn",
            )
        shapes = _one_tensor_each(boundaries)
        check_mesh_plan(mesh_plan, row, stages, shapes, is_seeded=seed is not None)
        is_sum = loss_weight is not None
        rank_stages = _on_meshes(mesh_plan, stages, shapes, settings, loss, reader, replicas, is_sum=is_sum)
    place = dist.get_rank(replicas.pipeline)
    rank = place if mesh_plan is None else mesh_plan.rank_of(place)
    rank_stages = replace(
        rank_stages, loss_weight=loss_weight, tied=row.shared, repeated=repeated_names(stages, rank), traced=row.traced
    )
    watch = rank_watch(rank_timeout_s)
    pipe = Pipeline(
        rank_stages, schedule, mesh_plan=mesh_plan, watch=watch,
        host_link=host_link if any(map(is_on_host, plan.used_kinds)) else None,
    )  # fmt: skip
    if weights is not None:
        pipe.load_pretrained(weights, has_buffers=empty_buffers)
    return pipe


def _materialise(row: ModelRow, stages: Sequence[StageParts], device: torch.device, rank: int | None) -> bool:
    """Give storage to what is on the meta device in the stages of a rank, or of all; values are read afterwards.

    Return whether some of it are buffers, those that checkpoints have; others have values, or are refused later.
    """
    has_buffers = False
    parts = [part for stage in stages if rank in (None, stage.rank) for part in stage.parts]
    make_buffers(row, parts, device)
    for module in (module for part in parts for module in part.module.modules()):
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_meta:
                empty = torch.empty_like(parameter, device=device)
                module._parameters[name] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta and name not in module._non_persistent_buffers_set:
                module._buffers[name] = torch.empty_like(buffer, device=device)
                has_buffers = True
    share(row.shared, {name: part for part in parts for name in names_of(part)})
    return has_buffers


def _traced(plan: Plan, model: nn.Module, inputs: Any, mesh_plan: MeshPlan | None, device: torch.device) -> ModelRow:
    """Return a module as a row of as many layers as the plan has, or of those that `evenflow.auto` has planned."""
    return traced_row(
        model,
        first_microbatch(inputs, plan.num_microbatches),
        num_layers=plan.num_layers,
        most_even_layers=None if mesh_plan is None else EVEN_LAYERS_PER_DEVICE * mesh_plan.cluster.num_devices,
        device=device,
    )


def _own_loss(output: Tensor, _target: Any) -> Tensor:
    """Return the loss that the model has returned."""
    if output.dim():
        raise InputError(
            value=list(output.shape),
            rule=_("must be a single number, the loss of the microbatch"),
            place=_("result of the model"),
            remedy=_("give a loss_fn, or the labels among the inputs of a model that returns its loss"),
        )
    return output


def _check_traced(**others: Any) -> None:
    """Raise InputError for what needs the modules of a model that runs as it was traced."""
    for name, value in others.items():
        if value:
            raise InputError(
                value=value if isinstance(value, int) else None,
                rule=_("must be left out for a module that is cut by its operators"),
                place=name,
                remedy=_("give the model as modules in order (evenflow.run.as_row)"),
            )


def _one_tensor_each(boundaries: Sequence[Boundary]) -> list[Tensor]:
    """Return the tensors that cross between stages; raise InputError where several do."""
    for index, boundary in enumerate(boundaries):
        if boundary.packing is not None:
            raise InputError(
                value=len(boundary.packing.shapes),
                rule=_("must hand over one tensor, where stages lie on several devices"),
                place=_("stage {stage}", stage=index - 1),
            )
    return [boundary.tensor for boundary in boundaries]


def _check_replicas_of_devices(
    replicas: Replicas, parallelize: Callable[[Mapping[str, nn.Module]], None] | None
) -> None:
    """Raise InputError for what a plan of stages on several devices says itself, or cannot be put around it."""
    if parallelize is not None:
        raise InputError(
            rule=_("must not be given with a mesh_plan, which says where every stage lies"),
            place="parallelize",
            remedy=_("leave it out, or plan the pipeline alone with evenflow plan"),
        )
    if replicas.is_sharded:
        raise InputError(
            rule=_("must have no dimension dp_shard or dp with a mesh_plan, which says itself what devices share"),
            place="mesh",
            remedy=_("name it dp_replicate: replicas of all devices of the plan, which have copies"),
        )
    if sum(map(len, replicas.pipelines)) != dist.get_world_size():
        raise InputError(
            value=sum(map(len, replicas.pipelines)),
            rule=_("must have all {needed} processes with a mesh_plan", needed=dist.get_world_size()),
            place="mesh",
        )


def _on_one_device(
    stages: Sequence[StageParts],
    boundaries: Sequence[Boundary],
    settings: StageSettings,
    loss_fn: LossFunction,
    replicas: Replicas,
    parallelize: Callable[[Mapping[str, nn.Module]], None] | None,
    reader: BatchReader,
) -> RankStages:
    """Build the stages of this rank, whose device has all of them, or shares them with replicas."""
    rank = dist.get_rank(replicas.pipeline)
    own = _moved(stages, rank, settings.device)
    shared = SharedParameters(settings.shared, stages, rank, replicas.pipeline)
    if parallelize is not None:
        for stage in own:
            parallelize({part.path: part.module for part in stage.parts})
    built = [_stage(stage, boundaries, settings, replicas.pipeline) for stage in own]
    averaged = None if replicas.data is None else replicate(built, replicas)
    return RankStages(
        stages=built,
        shared=shared,
        loss_fn=loss_fn,
        message=boundaries[1].tensor,
        replicas=replicas,
        averaged=averaged,
        reader=reader,
    )


def _on_meshes(
    mesh_plan: MeshPlan,
    stages: Sequence[StageParts],
    boundaries: Sequence[Tensor],
    settings: StageSettings,
    loss_fn: LossFunction,
    reader: BatchReader,
    replicas: Replicas,
    *,
    is_sum: bool,
) -> RankStages:
    """Build this device's part of the stages of its rank, which several devices share; replicas have copies of it."""
    rank = mesh_plan.rank_of(dist.get_rank(replicas.pipeline))
    own = _moved(stages, rank, settings.device)
    meshes = device_meshes(mesh_plan, settings.device.type, replicas.pipelines, own=replicas.index)
    place_parameters(own, mesh_plan, meshes)
    shared = MeshParameters(settings.shared, stages, mesh_plan, rank, replicas.pipeline)
    built = mesh_stages(own, mesh_plan, meshes, boundaries, settings, shared, replicas.pipeline)
    if built[-1].is_last:
        loss_fn = MeshLoss(loss_fn, built[-1].submod, is_sum=is_sum)
    message = message_of(mesh_plan, boundaries)
    averaged = None if replicas.data is None else AveragedGradients({}, shared.all_updated(), replicas)
    return RankStages(
        stages=built, shared=shared, loss_fn=loss_fn, message=message, replicas=replicas, reader=reader,
        averaged=averaged,
    )  # fmt: skip


def _stage(
    stage: StageParts, boundaries: Sequence[Boundary], settings: StageSettings, pipeline: dist.ProcessGroup
) -> RuntimeStage:
    taken, handed_over = boundaries[stage.index], boundaries[stage.index + 1]
    built = RuntimeStage(
        StageModule(
            stage,
            settings.context,
            seed=settings.seed,
            first_microbatch=settings.first_microbatch,
            recompute_modules=settings.recompute_modules,
            arriving=taken.packing,
        ),
        index=stage.index,
        num_stages=len(boundaries) - 1,
        device=settings.device,
        example_input=taken.tensor,
        example_output=handed_over.tensor,
        weight_gradients=weight_gradients(stage),
        group=pipeline,
    )
    built.handed_over = handed_over
    return built


def microbatch_of(tensor: Tensor, plan: Plan, *, place: str) -> Tensor:
    """Return the first microbatch of a batch.

    Raises:
        InputError: the microbatches of the plan do not divide the batch.
    """
    size = tensor.shape[0] if tensor.dim() else 0
    if size == 0 or size % plan.num_microbatches:
        raise InputError(
            value=size,
            rule=_(
                "must have a first dimension that the plan's {num_microbatches} microbatches divide",
                num_microbatches=plan.num_microbatches,
            ),
            place=place,
            remedy=_("use a multiple of {num_microbatches}", num_microbatches=plan.num_microbatches),
        )
    return tensor[: size // plan.num_microbatches]


def _moved(stages: Sequence[StageParts], rank: int, device: torch.device) -> list[StageParts]:
    """Return the stages of a rank, their modules moved to `device`."""
    own = [stage for stage in stages if stage.rank == rank]
    for part in (part for stage in own for part in stage.parts):
        for name, value in (*part.module.named_parameters(), *part.module.named_buffers()):
            if value.is_meta:
                raise InputError(
                    value=_("{name} on the meta device", name=f"{part.name}.{name}"),
                    rule=_("must have storage for the modules of this rank"),
                    place="model",
                    remedy=_("materialise them first"),
                )
        part.module.to(device)
    return own
