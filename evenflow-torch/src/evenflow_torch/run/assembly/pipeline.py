"""This rank's part of a model in training."""

from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.cluster import MeshPlan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import HostLink
from evenflow.schedule import Schedule
from evenflow_torch.models.parts import Part, Traced
from evenflow_torch.run.assembly.batches import Batch, BatchReader, Samples, names_taken, on_device
from evenflow_torch.run.assembly.checkpoints import Checkpoint, module_of
from evenflow_torch.run.assembly.safetensors_files import read_tensors, write_pretrained
from evenflow_torch.run.engine.boundaries import agree_on_boundaries
from evenflow_torch.run.engine.gradient_norm import norm_over_ranks, scale_to_norm
from evenflow_torch.run.engine.hooks import Hook, insert_calls, insert_hooks
from evenflow_torch.run.engine.host_traffic import HostTraffic
from evenflow_torch.run.engine.loss_shares import LossWeight, loss_shares
from evenflow_torch.run.engine.runtime import LossFunction, make_runtime
from evenflow_torch.run.engine.runtime_stage import Crossing, Observer, RuntimeStage
from evenflow_torch.run.engine.shared_parameters import SharedParameters
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from evenflow_torch.run.mesh.mesh_stage import MeshStage
from evenflow_torch.run.mesh.stage_modules import MeshLoss, placed_like
from evenflow_torch.run.replicas.averaged_gradients import AveragedGradients
from evenflow_torch.run.replicas.replicas import Replicas
from evenflow_torch.run.watch.rank_watch import RankWatch

_State = tuple[Any, ...]
"""What decides what crosses between stages: shapes of a microbatch, the type of autocast if it is on, and the mode of a
model that was traced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStages:
    """The stages of this rank, ready to compute, and what they have in common."""

    stages: Sequence[RuntimeStage]
    """Stages in the order of the pipeline."""
    shared: SharedParameters | MeshParameters
    """Gradients that other devices have a part of."""
    replicas: Replicas
    tied: Sequence[Sequence[str]] = ()
    """Names of parameters that are one and the same."""
    repeated: Set[str] = frozenset()
    """Names of parameters that the rank of an earlier stage has too."""
    averaged: AveragedGradients | None = None
    """Gradients of parameters that every replica has whole; None where there are none."""
    loss_fn: LossFunction
    """Loss of one microbatch on this device."""
    loss_weight: LossWeight | None = None
    """What a microbatch counts, if its loss is a sum; None: losses are means over samples."""
    reader: BatchReader
    traced: Traced | None = None
    """What parts are traced with, if they are."""
    message: Tensor
    """Tensor that the first device sends to the next stage for one microbatch, on the meta device."""


class Pipeline:
    """This rank's part of a model in training. Make one with `evenflow.run.pipeline`."""

    def __init__(
        self,
        rank_stages: RankStages,
        schedule: Schedule,
        *,
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
        self._saving: Future[Any] | None = None
        """The checkpoint that is being written."""
        self._saving_group: dist.ProcessGroup | None = None
        self.replicas = rank_stages.replicas
        """The pipelines of the training, of which this is one."""
        self._shared = rank_stages.shared
        self._averaged = rank_stages.averaged
        self._tied = rank_stages.tied
        self._repeated = rank_stages.repeated
        self._loss_weight = rank_stages.loss_weight
        self._crossings: dict[_State, dict[int, Crossing]] = {}
        """What crosses between the stages of this rank."""
        self._reader = rank_stages.reader
        self._traced = rank_stages.traced
        self._names = names_taken(self._parts())

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

    def step(self, batch: Batch, *, scaler: torch.amp.GradScaler | None = None) -> Tensor | None:
        """Run forward and backward of all microbatches; gradients are added to what the parameters hold.

        Return the loss on the rank of the last stage, None on the others: the mean over samples, or over what
        `loss_weight` counts. Every rank of a pipeline gives the same batch; only the first stage reads the inputs, only
        the last the targets. Each replica has a batch of its own, of any number of samples; loss and gradients are
        means over all.

        Shapes may differ from step to step, on all ranks alike: what crosses between stages is found anew for each
        shape. Microbatches have equal numbers of samples, or the first ones one more.

        With a `scaler`, gradients are those of the scaled loss, for ``scaler.step(optimizer)``; ranks must agree on
        overflows, as those of `torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler` do.

        Raises:
            InputError: a batch of another form or shape.
            RunError: under torchrun, another rank failed, died or shows no sign of life; it is named. What the model or
                the loss raises comes as it is, with a note of the rank, stage and microbatch.
        """
        samples = self._given(batch)
        for stage in self.stages:
            stage.submod.step = self.num_steps
        with self.at_work():
            read = self._prepared(samples)
            self._shared.before_step()
            loss = self.runtime.run(*read, scale=None if scaler is None else self._scale(scaler))
            if self.mesh_plan is not None:  # replicas average what the devices of one have put together
                self._shared.after_step()
            if self._averaged is not None:
                self._averaged.finish()
            if self.mesh_plan is None:
                self._shared.after_step()
            loss = self._total(loss)
        self.num_steps += 1
        return loss

    def evaluate(self, batch: Batch) -> Tensor | None:
        """Return the loss of a batch on the rank of the last stage, None on the others, as `step` does.

        Only forwards run, in evaluation mode (without dropout) and under `torch.no_grad`: nothing changes, and modules
        are in their own modes again afterwards.

        Raises:
            InputError: as `step`.
        """
        samples = self._given(batch)
        modes = [(module, module.training) for stage in self.stages for module in stage.submod.modules()]
        self.train(False)
        try:
            with self.at_work():
                read = self._prepared(samples)
                self._shared.before_evaluation()
                loss = self.runtime.evaluate(*read)
                self._shared.after_evaluation()
                return self._total(loss)
        finally:
            for module, is_training in modes:
                module.training = is_training

    def _given(self, batch: Batch) -> Samples:
        """Return the samples of a batch of shapes that can be run."""
        samples = self._reader.read(batch, place="batch")
        shapes = samples.shapes
        least = self.schedule.num_microbatches
        targets = samples.targets
        is_even = not isinstance(targets, Tensor) or (targets.dim() > 0 and len(targets) == samples.count)
        if not is_even or samples.count < least:
            raise InputError(
                value=shapes,
                rule=_(
                    "must have the same number of samples in inputs and targets, at least one for each of the plan's "
                    "{least} microbatches",
                    least=least,
                ),
                place="batch",
                remedy=_("drop or fill up the last batch of an epoch"),
            )
        if self.mesh_plan is not None:
            if samples.count % least:
                raise InputError(
                    value=samples.count,
                    rule=_("must have a number of samples that the plan's {count} microbatches divide", count=least),
                    place="batch",
                    remedy=_("drop or fill up the last batch of an epoch"),
                )
            shape = tuple(samples.split(least)[0].hidden.shape)
            for stage in self.stages:
                if isinstance(stage, MeshStage):
                    stage.run_with(shape, least)
        return samples

    def _prepared(self, samples: Samples) -> tuple[list[Tensor] | None, list[Any] | None, Tensor | None]:
        """Return what this rank reads of a batch, and what its microbatches count; stages know what will cross."""
        first, last = self.stages[0], self.stages[-1]
        count = self.schedule.num_microbatches
        microbatches = samples.split(count)
        hidden = [on_device(part.hidden, first.device) for part in microbatches] if first.is_first else None
        self._give_inputs(microbatches)
        targets: list[Any] | None = None
        if last.is_last:
            is_read = self._reader.has_loss or self._loss_weight is not None
            targets = [on_device(part.targets, last.device) if is_read else None for part in microbatches]
        if self._traced is not None:
            for part in (microbatches[0], microbatches[-1]):
                self._traced.prepare(part.inputs, training=first.submod.training)
        if self.mesh_plan is None:  # else it says what crosses
            self._agree(microbatches)
        is_even = self._loss_weight is None and self.replicas.count == 1 and samples.count % count == 0
        if targets is None or is_even:
            return hidden, targets, None
        sizes = [part.count for part in microbatches]
        shares = loss_shares(sizes, targets, self._loss_weight, self.replicas.sum, last.device)
        return hidden, targets, shares * self.replicas.count

    def _give_inputs(self, microbatches: Sequence[Samples]) -> None:
        """Let the parts of this rank have what they take of a batch by name."""
        if self._names:
            device = self.stages[0].device
            taken = [
                {name: on_device(tensor, device) for name, tensor in part.named.items() if name in self._names}
                for part in microbatches
            ]
            for stage in self.stages:
                stage.submod.batch_inputs = taken

    def _agree(self, microbatches: Sequence[Samples]) -> None:
        """Let stages know what crosses between them in a step, all ranks alike."""
        states = [self._state_of(part) for part in microbatches]
        for place in (0, len(microbatches) - 1):
            state, hidden = states[place], microbatches[place].hidden
            if state not in self._crossings:
                crossings = agree_on_boundaries(
                    self.stages, self.schedule.stage_ranks, hidden, self.replicas.pipeline, microbatch=place
                )
                if not self._crossings:
                    for stage in self.stages:
                        stage.expect(*crossings[stage.stage_index])
                self._crossings[state] = crossings
        for stage in self.stages:
            stage.cross([self._crossings[state][stage.stage_index] for state in states])

    def _state_of(self, samples: Samples) -> _State:
        first = self.stages[0]
        kind = first.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        if self._traced is None:
            return tuple(samples.hidden.shape), *(tuple(value.shape) for value in samples.named.values()), autocast
        return tuple(value.shape for value in samples.named.values()), autocast, first.submod.training

    def _total(self, loss: Tensor | None) -> Tensor | None:
        """Return the loss of all replicas, or of all devices of the last stage."""
        if loss is None:
            return None
        return self.replicas.mean(self.loss_fn.total(loss) if isinstance(self.loss_fn, MeshLoss) else loss)

    def _scale(self, scaler: torch.amp.GradScaler) -> Tensor:
        scale = scaler.scale(torch.ones((), device=self.stages[0].device))
        assert isinstance(scale, Tensor)
        return scale

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
                counts=self.mesh_plan is None or self._is_first_of_rank,
                device=self.stages[0].device,
                group=self.replicas.pipeline,
            )
        scale_to_norm([parameter.grad for parameter in self.parameters()], norm, max_norm)
        return norm

    @property
    def is_traced(self) -> bool:
        """Whether the model is cut by its operators, and its parts run as they were traced."""
        return self._traced is not None

    @property
    def rank(self) -> int:
        """Rank of the pipeline, which several devices may share or be replicas of."""
        return int(self.schedule.stage_ranks[self.stages[0].stage_index])

    @property
    def is_first_device(self) -> bool:
        """Whether this process is the first, or the only, one of its rank of the pipeline."""
        return self.replicas.index == 0 and (self.mesh_plan is None or self._is_first_of_rank)

    @property
    def _is_first_of_rank(self) -> bool:
        """Whether this is the first device of its rank, in its own pipeline."""
        assert self.mesh_plan is not None
        return dist.get_rank(self.replicas.pipeline) == self.mesh_plan.devices_of_rank()[self.rank][0]

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's part of the unsplit model's state_dict; all ranks together have the whole of it."""
        state: dict[str, Any] = {}
        for part in self._parts():
            state.update(part.module.state_dict(prefix=f"{part.path}." if part.path else ""))
            for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False):
                state[name] = self._shared.updated(parameter).detach()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load this rank's part out of the whole model's state_dict; names of other ranks are left alone.

        Raises:
            InputError: a name of this rank is missing.
        """
        for part in self._parts():
            prefix = f"{part.path}." if part.path else ""
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            if not prefix:
                own = {name: own[name] for name in part.module.state_dict() if name in own}
            try:
                part.module.load_state_dict(placed_like(part.module, own))
            except RuntimeError as error:
                raise InputError(
                    rule=_("must fit the model in {name}: {error}", name=part.name, error=error),
                    place="state_dict",
                ) from None
        self._shared.loaded()

    def save(self, folder: Path | str, optimizer: torch.optim.Optimizer | None = None, *, wait: bool = True) -> None:
        """Write a checkpoint of model, optimizer and number of steps; every process of the training calls it.

        The folder is one of `torch.distributed.checkpoint`, with the names of the unsplit model. It must be the same
        for all hosts. Without `wait`, values are copied into the host's memory, and written while the training goes
        on; the next checkpoint waits for it, and `wait_for_checkpoint` does.
        """
        self.wait_for_checkpoint()
        with self.at_work():
            checkpoint = self._checkpoint(optimizer)
            if wait:
                checkpoint.save(self.num_steps, Path(folder))
                return
            if self._saving_group is None:
                self._saving_group = dist.new_group(backend="gloo")
            self._saving = checkpoint.save_beside(self.num_steps, Path(folder), self._saving_group)

    def wait_for_checkpoint(self) -> None:
        """Wait until the last checkpoint has been written; every process calls it before it ends.

        What went wrong with it is raised here.
        """
        saving, self._saving = self._saving, None
        if saving is not None:
            with self.at_work():
                saving.result()

    def load_pretrained(self, folder: Path | str, *, has_buffers: bool = False) -> None:
        """Load parameters as Hugging Face keeps them, of which this rank reads its own; every process calls it.

        `folder` has ``model.safetensors``, or several files and their index, or it is a file. Buffers that it lacks
        stay as they are, unless it `has_buffers`.

        Raises:
            InputError: no such files, or ones of another model.
        """
        own = self.state_dict()
        parts = () if has_buffers else self._parts()
        buffers = [name for part in parts for name, _ in part.module.named_buffers(prefix=part.path)]
        self.load_state_dict({**own, **dict(read_tensors(Path(folder), list(own), self._tied, optional=buffers))})

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the parameters as Hugging Face keeps them, a file for each rank; every process calls it.

        Names and values are those of the unsplit model. The folder is the same for all hosts.
        """
        with self.at_work():
            copies = self._copies()
            state = {name: value for name, value in self.state_dict().items() if name not in copies}
            write_pretrained(
                state, Path(folder), tied=self._tied, rank=self.rank, num_ranks=self.schedule.num_ranks,
                is_first_device=self.is_first_device,
            )  # fmt: skip

    def load(self, folder: Path | str, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Go on from a checkpoint of `save`, also of another plan, mesh or number of processes; every process calls it.

        The optimizer is of the same kind, made of this pipeline's parameters; without it only the model is loaded.

        Raises:
            InputError: no checkpoint, or one of another model.
        """
        with self.at_work():
            self.num_steps = self._checkpoint(optimizer).load(Path(folder))

    def _checkpoint(self, optimizer: torch.optim.Optimizer | None) -> Checkpoint:
        updated = None if self.mesh_plan is None else self._shared.updated
        return Checkpoint(
            module_of(self._parts(), updated), optimizer, tied=self._tied, copies=self._copies(),
            repeated=self._repeated,
        )  # fmt: skip

    def _copies(self) -> set[str]:
        """Return the names of parameters that an earlier rank has too."""
        owned = {id(parameter) for parameter in self.owned_parameters()}
        return {name for name, parameter in self.named_parameters() if id(parameter) not in owned}

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
