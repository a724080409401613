"""This rank's part of a model in training."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from evenflow.cluster import MeshPlan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import HostLink
from evenflow.schedule import Schedule
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.boundaries import agree_on_boundaries
from evenflow_torch.run.engine.gradient_norm import norm_over_ranks, scale_to_norm
from evenflow_torch.run.engine.hooks import Hook, insert_calls, insert_hooks
from evenflow_torch.run.engine.host_traffic import HostTraffic
from evenflow_torch.run.engine.runtime import LossFunction, make_runtime
from evenflow_torch.run.engine.runtime_stage import Observer, RuntimeStage
from evenflow_torch.run.engine.shared_parameters import SharedParameters
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from evenflow_torch.run.mesh.stage_modules import MeshLoss, placed_like
from evenflow_torch.run.replicas.averaged_gradients import AveragedGradients
from evenflow_torch.run.replicas.replicas import Replicas
from evenflow_torch.run.watch.rank_watch import RankWatch

Batch = tuple[Tensor, Tensor]
"""Inputs and targets, each of shape [batch, ...]."""


def checked_batch(batch: object, *, place: str) -> Batch:
    """Return inputs and targets; raise InputError for a batch of any other form, such as a dict."""
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(tensor, Tensor) for tensor in batch):
        return batch[0], batch[1]
    kinds = ", ".join(type(value).__name__ for value in batch) if isinstance(batch, tuple | list) else ""
    raise InputError(
        value=f"{type(batch).__name__}({kinds})" if kinds else type(batch).__name__,
        rule=_("must be two tensors, inputs and targets"),
        place=place,
        remedy=_("for example (batch['input_ids'], batch['labels'])"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStages:
    """The stages of this rank, ready to compute, and what they have in common."""

    stages: Sequence[RuntimeStage]
    """Stages in the order of the pipeline."""
    shared: SharedParameters | MeshParameters
    """Gradients that other devices have a part of."""
    replicas: Replicas
    averaged: AveragedGradients | None = None
    """Gradients of parameters that every replica has whole; None where there are none."""
    loss_fn: LossFunction
    """Loss of one microbatch on this device."""
    message: Tensor
    """Tensor that the first device sends to the next stage for one microbatch, on the meta device."""


class Pipeline:
    """This rank's part of a model in training. Make one with `evenflow.run.pipeline`."""

    def __init__(
        self,
        rank_stages: RankStages,
        schedule: Schedule,
        *,
        example_batch: Batch,
        mesh_plan: MeshPlan | None = None,
        host_link: HostLink | None = None,
        watch: RankWatch | None = None,
    ) -> None:
        self._watch = watch
        self.schedule = schedule
        self.mesh_plan = mesh_plan
        self.stages = tuple(rank_stages.stages)
        self.loss_fn = rank_stages.loss_fn
        self.message = rank_stages.message
        """Tensor that the first device sends to the next stage for one microbatch, on the meta device."""
        self.runtime = make_runtime(self.stages, schedule, self.loss_fn)
        self.host_link = host_link
        """When what layers keep on the host moves; None: layer by layer, or not at all."""
        if host_link is not None:
            self._move_as_planned(host_link)
        self.num_steps = 0
        """Steps done, which the random numbers depend on; set it when training goes on from a checkpoint."""
        self.replicas = rank_stages.replicas
        """The pipelines of the training, of which this is one."""
        self._shared = rank_stages.shared
        self._averaged = rank_stages.averaged
        self._has_agreed = mesh_plan is not None
        """Whether the stages know what will cross between them; on several devices it is part of the plan."""
        self._shapes = tuple(tuple(tensor.shape) for tensor in example_batch)

    def _move_as_planned(self, host_link: HostLink) -> None:
        """Let the layers that wait on the host move when the plan says."""
        runtime = self.runtime
        moving = [stage for stage in self.stages if stage.submod.has_moving]
        traffic = HostTraffic(
            self.schedule,
            self.schedule.stage_ranks[self.stages[0].stage_index],
            host_link,
            stages=[stage.stage_index for stage in moving],
            device=self.stages[0].device,
            keeps_inputs=lambda: runtime.keeps_outputs or any(stage.witness for stage in self.stages),
        )
        runtime.traffic = traffic
        for stage in moving:
            stage.traffic = traffic
            stage.submod.offload.is_planned = True
        insert_calls(runtime, [Hook(after=action, run=call) for action, call in traffic.calls()])

    def step(self, batch: Batch) -> Tensor | None:
        """Run forward and backward of all microbatches; gradients are added to what the parameters hold.

        Return the mean of the microbatches' losses on the rank of the last stage, None on the others. Every rank gives
        the whole batch, of the example's shape; only the first stage reads the inputs, only the last the targets. Each
        replica of the pipeline has a batch of its own; loss and gradients are means over the replicas.

        Raises:
            InputError: a batch of another form or shape.
            RunError: under torchrun, another rank failed, died or shows no sign of life; it is named. What the model or
                the loss raises comes as it is, with a note of the rank, stage and microbatch.
        """
        inputs, targets = checked_batch(batch, place="batch")
        shapes = (tuple(inputs.shape), tuple(targets.shape))
        if shapes != self._shapes:
            raise InputError(
                value=shapes,
                rule=_("must have the shapes of the example batch, {shapes}", shapes=self._shapes),
                place="batch",
                remedy=_("drop or fill up the last batch of an epoch"),
            )
        for stage in self.stages:
            stage.submod.step = self.num_steps
        first, last = self.stages[0], self.stages[-1]
        # Without waiting: from pinned memory the copy runs beside the host.
        first_inputs = inputs.to(first.device, non_blocking=True) if first.is_first else None
        last_targets = targets.to(last.device, non_blocking=True) if last.is_last else None
        with self.at_work():
            if not self._has_agreed:
                example = inputs[: len(inputs) // self.schedule.num_microbatches]
                agree_on_boundaries(self.stages, self.schedule.stage_ranks, example, self.replicas.pipeline)
                self._has_agreed = True
            self._shared.before_step()
            loss = self.runtime.run(first_inputs, last_targets)
            if self._averaged is not None:
                self._averaged.finish()
            self._shared.after_step()
            if loss is not None:
                loss = self.loss_fn.total(loss) if isinstance(self.loss_fn, MeshLoss) else self.replicas.mean(loss)
        self.num_steps += 1
        return loss

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of this rank under the names of the unsplit model, each once."""
        seen: set[int] = set()
        for part in self._parts():
            for name, parameter in part.module.named_parameters(prefix=part.path):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, self._shared.updated(parameter)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters for an optimizer of this rank."""
        return (parameter for _, parameter in self.named_parameters())

    def owned_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of this rank that count where all ranks add up, as in a norm of the gradients.

        All ranks together yield each parameter once: one that several have, such as a tied embedding, comes from the
        first of them. On several devices every one of them yields the parameters of its rank.
        """
        seen: set[int] = set()
        for part in self._parts():
            for parameter in part.module.parameters():
                if id(parameter) not in seen and self._shared.is_owned(parameter):
                    seen.add(id(parameter))
                    yield self._shared.updated(parameter)

    def clip_grad_norm_(self, max_norm: float, *, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients so that their norm over all ranks is at most `max_norm`; return the norm before.

        As `torch.nn.utils.clip_grad_norm_` on the unsplit model: every parameter counts once. Every rank calls it, and
        gets the same norm. With `max_norm` infinite it only measures.
        """
        gradients = [parameter.grad for parameter in self.owned_parameters() if parameter.grad is not None]
        with self.at_work():
            norm = norm_over_ranks(
                gradients,
                norm_type,
                counts=self.mesh_plan is None or self.is_first_device,
                device=self.stages[0].device,
                group=self.replicas.pipeline,
            )
        scale_to_norm([parameter.grad for parameter in self.parameters()], norm, max_norm)
        return norm

    @property
    def is_first_device(self) -> bool:
        """Whether this process is the first, or the only, one of its rank of the pipeline."""
        rank = self.schedule.stage_ranks[self.stages[0].stage_index]
        if self.mesh_plan is None:
            return self.replicas.index == 0
        return dist.get_rank() == self.mesh_plan.devices_of_rank()[rank][0]

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's part of the unsplit model's state_dict; all ranks together have the whole of it."""
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
                    rule=_("must fit the model in {name}: {error}", name=part.name, error=error),
                    place="state_dict",
                ) from None
        self._shared.loaded()

    def train(self, mode: bool = True) -> None:
        """Switch dropout and the like on or off, as `torch.nn.Module.train` does."""
        for stage in self.stages:
            stage.submod.train(mode)

    def at_work(self) -> AbstractContextManager[None]:
        """Return a context for work that waits for other ranks: where it fails, the rank that failed first is named."""
        return nullcontext() if self._watch is None else self._watch.at_work(self.runtime.position)

    def observe(self, observer: Observer) -> None:
        """Tell `observer` when the actions of this rank compute, from now on."""
        for stage in self.stages:
            stage.observer = observer

    def add_hooks(self, hooks: Sequence[Hook]) -> None:
        """Call `hooks` behind their actions in every step from now on.

        Raises:
            InputError: a hook follows an action of another rank.
        """
        insert_hooks(self.runtime, hooks)

    def _parts(self) -> list[Part]:
        return [part for stage in self.stages for part in stage.submod.parts]
