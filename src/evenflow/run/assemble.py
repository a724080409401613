"""From a plan and a model to a pipeline that trains: what `evenflow.run.pipeline` is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.cluster.mesh_plan import MeshPlan
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.recompute_parts import RECOMPUTE_PARTS
from evenflow.run.engine.hooks import Hook, insert_hooks
from evenflow.run.engine.order import check_world, runnable_order
from evenflow.run.engine.recompute_layers import check_kinds
from evenflow.run.engine.runtime import LossFunction, make_runtime
from evenflow.run.engine.runtime_stage import Observer, RuntimeStage
from evenflow.run.engine.shared_parameters import SharedParameters
from evenflow.run.engine.stages import StageModule, StageParts, StageSettings, boundary_shapes, cut, weight_builder
from evenflow.run.mesh.assembly import MeshLoss, check_mesh_plan, mesh_stages, message_of, place_parameters
from evenflow.run.mesh.parameters import MeshParameters
from evenflow.run.mesh.stage_modules import device_meshes, placed_like
from evenflow.schedule import Schedule
from evenflow.torch_model.parts import ModelRow
from evenflow.torch_model.recompute import Patterns
from evenflow.torch_model.rows import as_row

Shared = SharedParameters | MeshParameters
Batch = tuple[Tensor, Tensor]
"""Inputs and targets, each of shape [batch, ...]."""


class Pipeline:
    """This rank's part of a model in training. Make one with `pipeline`."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        stages: Sequence[RuntimeStage],
        loss_fn: LossFunction,
        shared: Shared,
        message: Tensor,
        example_batch: Batch,
        hooks: Sequence[Hook],
        mesh_plan: MeshPlan | None = None,
    ) -> None:
        self.schedule = schedule
        self.stages = tuple(stages)
        self.loss_fn = loss_fn
        self.mesh_plan = mesh_plan
        self.message = message
        """What the first device sends to the next stage for one microbatch, on the meta device."""
        self.runtime = make_runtime(stages, schedule, loss_fn)
        insert_hooks(self.runtime, hooks)
        self.num_steps = 0
        """Steps done, which the random numbers depend on; set it when training goes on from a checkpoint."""
        self._shared = shared
        self._shapes = tuple(tuple(tensor.shape) for tensor in example_batch)

    def step(self, batch: Batch) -> Tensor | None:
        """Forward and backward of all microbatches; gradients are added to what the parameters hold.

        The mean of the microbatches' losses on the rank of the last stage, None on the others. Every rank gives the
        whole batch, of the example's shape; only the first stage reads the inputs, only the last the targets.
        """
        shapes = tuple(tuple(tensor.shape) for tensor in batch)
        if shapes != self._shapes:
            raise InputError(
                value=shapes,
                rule=f"every batch has the shapes of the example: {self._shapes}",
                place="batch",
                remedy="drop or fill up the last batch of an epoch",
            )
        for stage in self.stages:
            stage.submod.step = self.num_steps
        first, last = self.stages[0], self.stages[-1]
        inputs = batch[0].to(first.device) if first.is_first else None
        targets = batch[1].to(last.device) if last.is_last else None
        self._shared.before_step()
        loss = self.runtime.run(inputs, targets)
        self._shared.after_step()
        self.num_steps += 1
        return self.loss_fn.total(loss) if loss is not None and isinstance(self.loss_fn, MeshLoss) else loss

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of this rank under the names of the unsplit model, each once."""
        seen: set[int] = set()
        for part in self._parts():
            for name, parameter in part.module.named_parameters(prefix=part.path):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, self._shared.updated(parameter)

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimizer of this rank gets."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Any]:
        """This rank's part of the unsplit model's state_dict: the union over all ranks is the whole of it."""
        state: dict[str, Any] = {}
        for part in self._parts():
            state.update(part.module.state_dict(prefix=f"{part.path}."))
            for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False):
                state[name] = self._shared.updated(parameter).detach()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load this rank's part out of the whole model's state_dict; names of other ranks are left alone.

        Raises:
            InputError: a name of this rank is missing.
        """
        for part in self._parts():
            prefix = f"{part.path}."
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            try:
                part.module.load_state_dict(placed_like(part.module, own))
            except RuntimeError as error:
                raise InputError(
                    value=part.name, rule=f"the state_dict fits the model ({error})", place="state_dict"
                ) from None
        self._shared.loaded()

    def train(self, mode: bool = True) -> None:
        """Switch dropout and the like on or off, as of a module."""
        for stage in self.stages:
            stage.submod.train(mode)

    def _parts(self) -> list[Any]:
        return [part for stage in self.stages for part in stage.submod.parts]


def pipeline(
    plan: Plan,
    model: nn.Module | Sequence[nn.Module] | ModelRow,
    loss_fn: LossFunction,
    example_batch: Batch,
    *,
    schedule: Schedule | None = None,
    mesh_plan: MeshPlan | None = None,
    device: torch.device | str = "cpu",
    seed: int | None = None,
    head_modules: int = 0,
    tail_modules: int = 0,
    recompute_modules: Patterns = RECOMPUTE_PARTS,
    observer: Observer | None = None,
    hooks: Sequence[Hook] = (),
) -> Pipeline:
    """This rank's part of `model` as `plan` cuts it; call it on every rank, after ``init_process_group``.

    The modules of this rank's stages are taken over: moved to `device` and changed in place where they recompute or
    leave weight gradients for later. Other modules are not touched and may be on the meta device. Model and seed of
    the random numbers that made it are the same on every rank.

    Args:
        plan: its number of ranks is the world size.
        model: see `evenflow.run.as_row`, as for `head_modules` and `tail_modules`.
        loss_fn: ``loss_fn(output, target)`` of one microbatch, a mean over its samples.
        example_batch: inputs and targets, of which only shapes and types matter; the first dimension is split into
            the plan's microbatches.
        schedule: another order of work than the plan's.
        mesh_plan: where every stage lies, if on several devices: of ``evenflow auto`` (`AutoPlan.mesh_plan`, or
            `evenflow.profiles.mesh_plan_file.parse_mesh_plan`). The world size is its number of devices then, the
            parameters become DTensors, and the first dimension of the batch counts for all devices of a stage together.
        seed: makes dropout the same however the model is split. Without it, random numbers come as they come.
        recompute_modules: glob patterns of the sub-modules that each kind but ``full`` runs again, by their names in a
            layer; see `evenflow.model.recompute_parts`.
        observer: see `evenflow.run.engine.runtime_stage.Observer`.
        hooks: see `evenflow.run.engine.hooks.Hook`.

    Raises:
        InputError: plan, model, batch and world size do not fit.
    """
    row = model if isinstance(model, ModelRow) else as_row(model, head_modules=head_modules, tail_modules=tail_modules)
    schedule = runnable_order(plan, schedule)
    if not dist.is_initialized():
        raise InputError(
            value=None,
            rule="the processes know each other",
            place="pipeline",
            remedy="start them with torchrun and call torch.distributed.init_process_group first",
        )
    check_world(plan, dist.get_world_size(), mesh_plan)
    stages = cut(row, plan, schedule)
    patterns = {**RECOMPUTE_PARTS, **recompute_modules}
    check_kinds(plan, row.body, patterns)
    example = microbatch_of(example_batch[0], plan, place="example batch")
    boundaries = boundary_shapes(stages, row.context, example)
    microbatch_of(example_batch[1], plan, place="example batch, targets")
    if mesh_plan is not None:
        check_mesh_plan(mesh_plan, row, stages, boundaries)
    device = torch.device(device)
    rank = dist.get_rank() if mesh_plan is None else mesh_plan.rank_of(dist.get_rank())
    own = [stage for stage in stages if stage.rank == rank]
    for stage in own:
        _move(stage, device)
    settings = StageSettings(
        context=row.context, seed=seed, recompute_modules=patterns, device=device, observer=observer
    )
    if mesh_plan is None:
        shared: Shared = SharedParameters(row.shared, stages, rank)
        built = [_stage(stage, boundaries, settings) for stage in own]
        message = boundaries[1]
    else:
        meshes = device_meshes(mesh_plan, device.type)
        place_parameters(own, mesh_plan, meshes)
        shared = MeshParameters(row.shared, stages, mesh_plan, rank)
        built = mesh_stages(own, mesh_plan, meshes, boundaries, settings)
        message = message_of(mesh_plan, boundaries)
        if built[-1].is_last:
            loss_fn = MeshLoss(loss_fn, built[-1].submod)
    return Pipeline(
        schedule=schedule,
        stages=built,
        loss_fn=loss_fn,
        shared=shared,
        message=message,
        example_batch=example_batch,
        hooks=hooks,
        mesh_plan=mesh_plan,
    )


def _stage(stage: StageParts, boundaries: Sequence[Tensor], settings: StageSettings) -> RuntimeStage:
    return RuntimeStage(
        StageModule(stage, settings.context, seed=settings.seed, recompute_modules=settings.recompute_modules),
        index=stage.index,
        num_stages=len(boundaries) - 1,
        device=settings.device,
        example_input=boundaries[stage.index],
        example_output=boundaries[stage.index + 1],
        weight_builder=weight_builder(stage),
        observer=settings.observer,
    )


def microbatch_of(tensor: Tensor, plan: Plan, *, place: str) -> Tensor:
    """The first microbatch of a batch; refuses one that cannot be divided."""
    size = tensor.shape[0] if tensor.dim() else 0
    if size == 0 or size % plan.num_microbatches:
        raise InputError(
            value=size,
            rule=f"the plan's {plan.num_microbatches} microbatches divide a batch equally",
            place=place,
            remedy=f"use a multiple of {plan.num_microbatches}",
        )
    return tensor[: size // plan.num_microbatches]


def _move(stage: StageParts, device: torch.device) -> None:
    for part in stage.parts:
        for name, value in (*part.module.named_parameters(), *part.module.named_buffers()):
            if value.is_meta:
                raise InputError(
                    value=f"{part.name}.{name}",
                    rule="the modules of this rank have storage",
                    place="model",
                    remedy="materialise them first",
                )
        part.module.to(device)
