"""The runtime of torch.distributed.pipelining for evenflow's orders: it adds the messages and executes them.

What is changed here, and in `evenflow_torch.run.engine.runtime_stage`:

    loss            kept by microbatch; the runtime indexes them by arrival, which fails for orders not ascending
    scale           each loss is divided by the number of microbatches, or times its share, before its backward, so that
                    gradients accumulate over any number of steps; the runtime divides what has accumulated, earlier
                    steps included
    receive buffer  taken when the message is asked for, given back after its use; the runtime takes all up front
    sent tensor     given back when its receiver has answered; the runtime keeps all of them to the end of the step
    last output     given back when the loss has it, unless there are hooks; the runtime keeps it to the backward
    exception       that of the model or the loss, with a note that says where, not wrapped; no schedules are logged
    evaluation      forwards in the order of the plan; the runtime goes through the backwards too, and skips them
    microbatches    come as they are, of any size and form; the runtime splits tensors
    observer        told when an action computes, without the time that it waits for its input
    witness         sees inputs and results of an action, and may ask for the graph of a backward to be kept
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.language import _
from evenflow.schedule import Schedule
from evenflow_torch.run.engine.host_traffic import HostTraffic
from evenflow_torch.run.engine.order import answered_backwards
from evenflow_torch.run.engine.position import Position
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.torch_names import (
    TorchAction,
    TorchRuntime,
    drop_outputs,
    expects_given_shapes,
    forget_forward,
    forwards_of,
    raised_inside,
    torch_action,
    without_schedules,
)

LossFunction = Callable[[Any, Any], Tensor]
"""Loss of one microbatch from output and target, a mean over its samples."""


class Runtime(TorchRuntime):
    """Executes one rank of a `Schedule`. Make one with `make_runtime`."""

    pipeline_order_with_comms: dict[int, Sequence[TorchAction]]

    def __init__(self, stages: Sequence[RuntimeStage], num_microbatches: int, loss_fn: LossFunction) -> None:
        super().__init__(list(stages), num_microbatches, loss_fn=loss_fn, scale_grads=False)
        self.keeps_outputs = False
        """Whether the last stage keeps its outputs until their backwards."""
        self.hooked: list[Callable[[Runtime], None]] = []
        """Functions of the hooks, by the microbatch index under which their calls stand in the order."""
        self.position = Position()
        """What this rank does; its stages keep it."""
        self.traffic: HostTraffic | None = None
        """What its stages move to the host and back when the plan says; None where the plan does not say it."""
        self.evaluating: Sequence[TorchAction] = ()
        """The forwards of this rank in their order, with their messages."""
        self._factors: Tensor | None = None
        """Factors of the losses before their backwards, by microbatch; None: all microbatches count alike."""
        self._open_losses: dict[int, Tensor] = {}
        self._losses: dict[int, Tensor] = {}
        self._inputs: Sequence[Tensor] | None = None
        """What the first stage takes, by microbatch."""
        self._targets: Sequence[Any] = ()
        """What the loss takes, by microbatch."""

    def stage(self, index: int) -> RuntimeStage:
        """Return a stage of this rank by its index in the pipeline."""
        return next(stage for stage in self._stages if stage.stage_index == index)

    def run(
        self,
        inputs: Sequence[Tensor] | None,
        targets: Sequence[Any] | None,
        shares: Tensor | None = None,
        *,
        scale: Tensor | None = None,
    ) -> Tensor | None:
        """Run one step over all microbatches; return the mean of their losses where the last stage is.

        `inputs` are needed on the rank of the first stage, `targets` on that of the last, one of each a microbatch.
        With `shares` [microbatches] the losses are added up, each times its share. Gradients are those of the loss
        times `scale`.
        """
        self._factors = shares
        if scale is not None:
            count = self._n_microbatches
            even = torch.full((count,), 1 / count, dtype=torch.float64, device=scale.device)
            self._factors = scale * (even if shares is None else shares)
        return self._run(self.step, inputs, targets, shares)

    def evaluate(
        self, inputs: Sequence[Tensor] | None, targets: Sequence[Any] | None, shares: Tensor | None = None
    ) -> Tensor | None:
        """Run the forwards of a batch and return its loss, as `run` does."""
        order = self.pipeline_order_with_comms
        self.pipeline_order_with_comms = {self.rank: self.evaluating}
        try:
            with torch.no_grad():
                return self._run(self.eval, inputs, targets, shares)
        finally:
            self.pipeline_order_with_comms = order

    def _run(
        self,
        work: Callable[..., Any],
        inputs: Sequence[Tensor] | None,
        targets: Sequence[Any] | None,
        shares: Tensor | None,
    ) -> Tensor | None:
        self._losses.clear()
        self._inputs, self._targets = inputs, targets or ()
        self.position.op = None
        if self.traffic is not None:
            self.traffic.begin_step()
        failure: Exception | None = None
        try:
            with without_schedules():
                work(return_outputs=False)
        except Exception as error:  # noqa: BLE001  it is raised again, as it was before torch has wrapped it
            failure = raised_inside(error)
        finally:
            self._open_losses.clear()
            self._inputs, self._targets = None, ()
        if failure is not None:
            failure.add_note(_("rank {rank}, {place}", rank=dist.get_rank(), place=self.position.text()))
            raise failure
        if not self._losses:
            return None
        losses = torch.stack([self._losses[index] for index in sorted(self._losses)])
        return losses.mean() if shares is None else (losses * shares).sum().to(losses.dtype)

    def repeat_loss(self, microbatch: int, output: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a microbatch of this step, and the loss of `output` in its place."""
        return self._losses[microbatch], self._compute_loss(output, self._targets[microbatch]).detach()

    def _maybe_compute_loss(
        self,
        stage: RuntimeStage,
        output: Any,
        target_mbs: Any,
        mb_index: int,
        loss_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if stage.is_last:
            self.position.begin_loss()
            loss = self._compute_loss(output, self._targets[mb_index], loss_kwargs)
            self._losses[mb_index] = loss.detach()
            if stage.has_backward:
                factors = self._factors
                self._open_losses[mb_index] = (
                    loss / self._n_microbatches if factors is None else loss * factors[mb_index]
                )
                if not self.keeps_outputs:
                    drop_outputs(stage, mb_index)
            else:
                forget_forward(stage, mb_index)
            stage.end_action()

    def _maybe_get_loss(self, stage: RuntimeStage, mb_index: int) -> Tensor | None:
        return self._open_losses.pop(mb_index) if stage.is_last else None

    def _split_inputs(self, *_args: Any, **_kwargs: Any) -> tuple[list[tuple[Tensor, ...]], list[dict[str, Any]]]:
        """Return the microbatches of `run`, which are split already."""
        count = self._n_microbatches
        inputs = self._inputs
        return [()] * count if inputs is None else [(hidden,) for hidden in inputs], [{}] * count

    def _initialize_pipeline_distributed_state(
        self, stages: list[Any], has_backward: bool, initialize_p2p: bool
    ) -> None:
        """Let neighbours find each other, unless stages know them themselves: from torch 2.15 on."""
        if all(stage.knows_its_neighbours for stage in stages):
            for stage in stages:
                expects_given_shapes(stage)
        else:
            super()._initialize_pipeline_distributed_state(stages, has_backward, initialize_p2p)

    def _update_losses(self, stages: Any, losses: Any) -> None:
        """Copy nothing: `run` reports the losses."""

    def _step_microbatches(self, *args: Any, **kwargs: Any) -> None:
        super()._step_microbatches(*args, **kwargs)
        for stage in self._stages:
            stage.finish_sends()


def make_runtime(stages: Sequence[RuntimeStage], schedule: Schedule, loss_fn: LossFunction) -> Runtime:
    """Return the runtime that executes `schedule` on this rank's `stages`."""
    result = Runtime(stages, schedule.num_microbatches, loss_fn)
    for stage in stages:
        stage.position = result.position
        stage.answered = answered_backwards(schedule, stage.stage_index)
    orders = {rank: [torch_action(action) for action in schedule.order(rank)] for rank in range(schedule.num_ranks)}
    result._prepare_schedule_with_comms(orders)
    result.evaluating = forwards_of(result.pipeline_order_with_comms[result.rank])
    return result
