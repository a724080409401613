"""Our orders on torch.distributed.pipelining's runtime: the only module that touches names which torch keeps private.

The runtime adds the messages to an order and executes it. What is changed here:

    loss            kept by microbatch; the runtime indexes them by arrival, which fails for orders not ascending
    scale           each loss is divided by the number of microbatches before its backward, so that gradients accumulate
                    over any number of steps; the runtime divides what has accumulated, earlier steps included
    receive buffer  taken when the message is asked for, given back after its use; the runtime takes all up front
    sent tensor     given back when its receiver has answered; the runtime keeps all of them to the end of the step
    last output     given back when the loss has it, unless there are hooks; the runtime keeps it to the backward
    observer        told when an action computes, without the time that it waits for its input
    witness         sees inputs and results of an action, and may ask for the graph of a backward to be kept
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from evenflow.errors import InputError
from evenflow.run.mesh.exchange import Exchange
from evenflow.schedule import Action, Op, Schedule

TORCH_VERSIONS = "2.13"
"""The release whose private names are used here; others are refused when a name is missing."""

try:
    from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime
    from torch.distributed.pipelining.stage import _make_tensor_from_meta, _RecvInfo
except ImportError as error:
    raise InputError(
        value=torch.__version__,
        rule=f"evenflow runs on torch {TORCH_VERSIONS}, whose pipelining has other private names ({error})",
        place="torch",
        remedy='install the version that evenflow is tested with: pip install "evenflow[run]"',
    ) from None

OVERRIDDEN = {
    PipelineStage: (
        "_setup_forward_recv_info",
        "_create_grad_recv_info",
        "_get_recv_ops",
        "get_fwd_recv_ops",
        "get_bwd_recv_ops",
        "get_fwd_send_ops",
        "get_bwd_send_ops",
        "_warmup_forward_vote",
        "_warmup_backward_result",
        "_retrieve_recv_activations",
        "_retrieve_recv_grads",
        "forward_one_chunk",
        "backward_one_chunk",
        "backward_maybe_with_nosync",
        "backward_weight_one_chunk",
    ),
    _PipelineScheduleRuntime: (
        "_maybe_compute_loss",
        "_maybe_get_loss",
        "_update_losses",
        "_step_microbatches",
        "_prepare_schedule_with_comms",
        "register_custom_function",
    ),
}
"""What is overridden or called of torch's classes: a test looks for each of them."""

_TYPES = {
    Op.F: _ComputationType.FORWARD,
    Op.B: _ComputationType.FULL_BACKWARD,
    Op.I: _ComputationType.BACKWARD_INPUT,
    Op.W: _ComputationType.BACKWARD_WEIGHT,
}
_HOOKED = _ComputationType.UNSHARD
"""Without FSDP the runtime does nothing for this type: hooks run under its name, with a microbatch index."""

LossFunction = Callable[[Any, Any], Tensor]
_Sends = dict[int, list[tuple[dist.Work, dist.P2POp]]]
"""What is on the way, by microbatch, with its tensors."""


class Observer(Protocol):
    """Is told when the actions of this rank compute."""

    def begin(self, op: Op, stage: int, microbatch: int) -> None:
        """An action starts: its input is there."""

    def end(self) -> None:
        """The action that began last has ended; called again when its loss has been computed."""


class Witness(Protocol):
    """Sees what a stage computes, such as to compute it again."""

    def computing(
        self, op: Op, stage: "Stage", microbatch: int, loss: Tensor | None = None
    ) -> AbstractContextManager[None]:
        """Around an action's work. Before a backward, the stage's ``fwd_cache`` and ``grad_recv_info`` have its inputs;
        after it ``bwd_cache`` has the gradient of its input. `loss` is what a backward of the last stage begins with.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Work of one's own inside the order of this rank, such as a check in a bubble."""

    after: Action
    """Runs once this action has ended, its message is on the way, and what the next action needs has been asked for."""
    run: Callable[["Runtime"], None]
    """Called in every step; ``runtime.stage(index).fwd_cache`` holds inputs and outputs of live microbatches."""


class Stage(PipelineStage):
    """A stage of the runtime whose buffers live only as long as they are needed.

    `module` has a field `microbatch`, which is set before its forward. `weight_builder` gives, after an input gradient,
    the function that computes the weight gradients which were left out.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        index: int,
        num_stages: int,
        device: torch.device,
        example_input: Tensor,
        example_output: Tensor,
        weight_builder: Callable[[], Callable[[], None]] | None,
        observer: Observer | None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(
            module,
            index,
            num_stages,
            device,
            input_args=example_input,
            output_args=example_output,
            dw_builder=weight_builder,
            group=group,
        )
        self.example_input, self.example_output = example_input, example_output
        self.observer = observer
        self.answered: Mapping[int, Sequence[int]] = {}
        """Backwards that the stage before has done, by the forward that it sends next: their sends have ended."""
        self.witness: Witness | None = None
        self.keeps_graph = False
        """Whether the next backward leaves its graph to be run again."""
        self._forward_sends: _Sends = {}
        self._backward_sends: _Sends = {}

    def _setup_forward_recv_info(self, num_microbatches: int, has_backward: bool) -> None:
        super()._setup_forward_recv_info(1, has_backward)
        (infos,) = self.args_recv_info.values()
        self.args_recv_info.update({index: _without_buffers(infos) for index in range(num_microbatches)})

    def _create_grad_recv_info(self, act_send_info: dict[int, list[int]]) -> tuple[_RecvInfo, ...]:
        return _without_buffers(super()._create_grad_recv_info(act_send_info))

    def _get_recv_ops(self, recv_infos: tuple[_RecvInfo, ...]) -> list[dist.P2POp]:
        for info in recv_infos:
            if not info.is_root_arg and info.tensor_meta is not None:
                info.buffer = _make_tensor_from_meta(info.tensor_meta, self.device)
        return super()._get_recv_ops(recv_infos)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Post the sends here and leave none to the runtime, which would keep them to the end of the step."""
        self._forward_sends[fwd_chunk_id] = _post(super().get_fwd_send_ops(fwd_chunk_id))
        return []

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """As `get_fwd_send_ops`."""
        self._backward_sends[bwd_chunk_id] = _post(super().get_bwd_send_ops(bwd_chunk_id))
        return []

    def finish_sends(self) -> None:
        """Wait for what is still on the way."""
        for sends in (self._backward_sends, self._forward_sends):
            for microbatch in list(sends):
                _finish(sends, microbatch)

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """As the runtime's; afterwards only the graph holds the input, whose coming says what has been received."""
        for microbatch in self.answered.get(fwd_chunk_id, ()):
            _finish(self._backward_sends, microbatch)
        self.submod.microbatch = fwd_chunk_id
        self._begin(Op.F, fwd_chunk_id)
        with self._witnessed(Op.F, fwd_chunk_id):
            output = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self._end()
        _drop_buffers(self.args_recv_info[fwd_chunk_id])
        return output

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Tensor | None = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """As the runtime's; the gradient that came says that the receiver has the output, so its send has ended."""
        _finish(self._forward_sends, bwd_chunk_id)
        op = Op.B if full_backward else Op.I
        self._begin(op, bwd_chunk_id)
        with self._witnessed(op, bwd_chunk_id, loss):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        self._end()
        _drop_buffers(self.grad_recv_info[bwd_chunk_id])

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """As the runtime's."""
        self._begin(Op.W, bwd_chunk_id)
        with self._witnessed(Op.W, bwd_chunk_id):
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        self._end()

    def backward_maybe_with_nosync(
        self, backward_type: Any, bwd_kwargs: dict[str, Any], last_backward: bool = False
    ) -> Any:
        """As the runtime's, which has no way to keep a graph."""
        if not self.keeps_graph:
            return super().backward_maybe_with_nosync(backward_type, bwd_kwargs, last_backward)
        assert backward_type == "full", "backwards are split by a weight builder"
        torch.autograd.backward(bwd_kwargs["stage_output"], bwd_kwargs["output_grads"], retain_graph=True)
        return tuple(take_gradient(value) for value in bwd_kwargs["input_values"]), None

    def _witnessed(self, op: Op, microbatch: int, loss: Tensor | None = None) -> AbstractContextManager[None]:
        if self.witness is None:
            return nullcontext()
        return self.witness.computing(op, self, microbatch, loss)

    def _begin(self, op: Op, microbatch: int) -> None:
        if self.observer is not None:
            self.observer.begin(op, self.stage_index, microbatch)

    def _end(self) -> None:
        if self.observer is not None:
            self.observer.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What a stage on several devices exchanges with its neighbours; None where there is no neighbour."""

    activations_in: Exchange | None
    activations_out: Exchange | None
    gradients_in: Exchange | None
    gradients_out: Exchange | None


class MeshStage(Stage):
    """A stage on several devices, each of which runs this with its part of everything.

    The runtime sees the pipeline alone: rank `rank` of `num_ranks`. What passes between stages may lie otherwise on the
    devices of the one than on those of the other, so every device exchanges parts with several others.
    """

    def __init__(
        self, module: nn.Module, *, rank: int, num_ranks: int, links: Links, example_output: Tensor, **others: Any
    ) -> None:
        super().__init__(module, example_output=example_output, **others)
        self.group_rank, self.group_size = rank, num_ranks
        self.links = links
        self._dtype = example_output.dtype  # of what passes between stages
        self._arriving: dict[tuple[Exchange, int], list[dist.P2POp]] = {}

    def _warmup_forward_vote(self, has_backward: bool, received_acc: Tensor | None = None) -> Tensor:
        """All shapes are given, on every stage: nothing to ask the others."""
        return torch.ones(1, dtype=torch.int32, device=self.device)

    def _warmup_backward_result(self, received_result: Tensor | None = None) -> Tensor:
        """As `_warmup_forward_vote`."""
        return torch.ones(1, dtype=torch.int32, device=self.device)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Ask for the parts that make up this device's."""
        return self._asked(self.links.activations_in, fwd_chunk_id)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """As `get_fwd_recv_ops`."""
        return self._asked(self.links.gradients_in, bwd_chunk_id)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """See `Stage`."""
        if self.links.activations_out is not None:
            (output,), _ = self.fwd_cache[fwd_chunk_id]
            self._forward_sends[fwd_chunk_id] = _post(self.links.activations_out.sends(output.detach()))
        return []

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """See `Stage`."""
        if self.links.gradients_out is not None:
            (gradient,) = self.bwd_cache.pop(bwd_chunk_id)
            assert gradient is not None
            self._backward_sends[bwd_chunk_id] = _post(self.links.gradients_out.sends(gradient))
        return []

    def _asked(self, exchange: Exchange | None, microbatch: int) -> list[dist.P2POp]:
        if exchange is None:
            return []
        asked = exchange.receives(dtype=self._dtype, device=self.device)
        self._arriving[exchange, microbatch] = asked
        return asked

    def _retrieve_recv_activations(self, fwd_chunk_id: int) -> tuple[Tensor, ...]:
        return (self._taken(self.links.activations_in, fwd_chunk_id).requires_grad_(),)

    def _retrieve_recv_grads(self, bwd_chunk_id: int) -> tuple[Tensor, ...]:
        return (self._taken(self.links.gradients_in, bwd_chunk_id),)

    def _taken(self, exchange: Exchange | None, microbatch: int) -> Tensor:
        assert exchange is not None
        asked = self._arriving.pop((exchange, microbatch))
        taken = exchange.arrived(asked, None, dtype=self._dtype, device=self.device)
        assert taken is not None
        return taken


class Runtime(_PipelineScheduleRuntime):
    """Executes one rank of a `Schedule`. Make one with `runtime`."""

    def __init__(self, stages: Sequence[Stage], num_microbatches: int, loss_fn: LossFunction) -> None:
        super().__init__(list(stages), num_microbatches, loss_fn=loss_fn, scale_grads=False)
        self.keeps_outputs = False
        """Whether the outputs of the last stage stay in its `fwd_cache`."""
        self._open_losses: dict[int, Tensor] = {}
        self._losses: dict[int, Tensor] = {}
        self._targets: Sequence[Any] = ()
        self.hooks: list[Hook] = []
        """By the microbatch index under which their calls stand in the order."""

    def stage(self, index: int) -> Stage:
        """A stage of this rank by its index in the pipeline."""
        return next(stage for stage in self._stages if stage.stage_index == index)

    def run(self, inputs: Tensor | None, targets: Tensor | None) -> Tensor | None:
        """One step over a whole batch; the mean of the microbatches' losses where the last stage is.

        `inputs` are needed on the rank of the first stage, `targets` on that of the last, shape [batch, ...].
        """
        self._losses.clear()
        try:
            self.step(*(() if inputs is None else (inputs,)), target=targets, return_outputs=False)
        finally:
            self._open_losses.clear()
            self._targets = ()
        if not self._losses:
            return None
        return torch.stack([self._losses[index] for index in sorted(self._losses)]).mean()

    def repeat_loss(self, microbatch: int, output: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a microbatch of this step, and what it is for `output`."""
        return self._losses[microbatch], self._compute_loss(output, self._targets[microbatch]).detach()

    def _maybe_compute_loss(
        self, stage: Stage, output: Any, target_mbs: Any, mb_index: int, loss_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        if stage.is_last:
            loss = self._compute_loss(output, target_mbs[mb_index], loss_kwargs)
            self._losses[mb_index] = loss.detach()
            self._targets = target_mbs
            self._open_losses[mb_index] = loss / self._n_microbatches
            if not self.keeps_outputs:
                stage.fwd_cache[mb_index] = ((), stage.fwd_cache[mb_index][1])
            stage._end()

    def _maybe_get_loss(self, stage: Stage, mb_index: int) -> Tensor | None:
        return self._open_losses.pop(mb_index) if stage.is_last else None

    def _update_losses(self, stages: Any, losses: Any) -> None:
        """Nothing to copy: `run` reports them."""

    def _step_microbatches(self, *args: Any, **kwargs: Any) -> None:
        super()._step_microbatches(*args, **kwargs)
        for stage in self._stages:
            stage.finish_sends()


def runtime(
    stages: Sequence[Stage], schedule: Schedule, loss_fn: LossFunction, *, hooks: Sequence[Hook] = ()
) -> Runtime:
    """The runtime of this rank's `stages` for an order; `hooks` run inside it."""
    result = Runtime(stages, schedule.num_microbatches, loss_fn)
    for stage in stages:
        stage.answered = _answered(schedule, stage.stage_index)
    orders = {
        rank: [_Action(action.stage, _TYPES[action.op], action.microbatch) for action in schedule.order(rank)]
        for rank in range(schedule.num_ranks)
    }
    result._prepare_schedule_with_comms(orders)
    insert_hooks(result, hooks)
    return result


def take_gradient(leaf: Tensor) -> Tensor | None:
    """The gradient of a stage's input, which is left without."""
    gradient, leaf.grad = leaf.grad, None
    return gradient


def insert_hooks(result: Runtime, hooks: Sequence[Hook]) -> None:
    """Place the hooks behind their action and its message.

    They stand behind the receives that follow too, so that messages arrive while they work.
    """
    if not hooks:
        return
    result.keeps_outputs = True
    chosen: dict[_Action, list[Hook]] = defaultdict(list)
    for hook in hooks:
        chosen[_Action(hook.after.stage, _TYPES[hook.after.op], hook.after.microbatch)].append(hook)
    order: list[_Action] = []
    waiting: list[Hook] = []
    for action in chosen.keys() - set(result.pipeline_order_with_comms[result.rank]):
        raise InputError(value=str(action), rule="a hook follows an action of its own rank", place="hooks")
    for action in [*result.pipeline_order_with_comms[result.rank], None]:
        if waiting and (action is None or action.computation_type in _TYPES.values()):
            for hook in waiting:
                order.append(_Action(hook.after.stage, _HOOKED, len(result.hooks)))
                result.hooks.append(hook)
            waiting = []
        if action is not None:
            order.append(action)
            waiting += chosen.get(action, [])
    result.pipeline_order_with_comms[result.rank] = order

    def call(action: Any, _context: Any) -> None:
        if action.microbatch_index is not None:  # the runtime's own have none
            result.hooks[action.microbatch_index].run(result)

    if len(result.hooks) == len(hooks):
        result.register_custom_function(_HOOKED, call)


def _finish(sends: _Sends, microbatch: int) -> None:
    for work, _ in sends.pop(microbatch, ()):
        work.wait()


def _answered(schedule: Schedule, stage: int) -> Mapping[int, Sequence[int]]:
    """See `Stage.answered`; from the order of the rank that has the stage before."""
    answered: dict[int, list[int]] = {}
    done: list[int] = []
    if stage > 0:
        for action in schedule.order(schedule.stage_ranks[stage - 1]):
            if action.stage == stage - 1 and action.op == Op.F:
                answered[action.microbatch] = done
                done = []
            elif action.stage == stage - 1 and action.op in (Op.B, Op.I):
                done.append(action.microbatch)
    return answered


def _post(ops: list[dist.P2POp]) -> list[tuple[dist.Work, dist.P2POp]]:
    return [(op.op(op.tensor, group=op.group, tag=op.tag, group_dst=op.group_peer), op) for op in ops]


def _without_buffers(infos: tuple[_RecvInfo, ...]) -> tuple[_RecvInfo, ...]:
    copies = tuple(copy.copy(info) for info in infos)
    _drop_buffers(copies)
    return copies


def _drop_buffers(infos: tuple[_RecvInfo, ...]) -> None:
    for info in infos:
        info.buffer = None
