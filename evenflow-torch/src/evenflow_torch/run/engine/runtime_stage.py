"""A stage as torch's runtime executes it; `evenflow_torch.run.engine.runtime` says what is changed."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from evenflow.cluster import BoxMessage
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import Op
from evenflow_torch.run.engine.host_traffic import HostTraffic
from evenflow_torch.run.engine.packing import Boundary
from evenflow_torch.run.engine.position import Position
from evenflow_torch.run.engine.split_backward import WeightGradients
from evenflow_torch.run.engine.torch_names import (
    PipelineStage,
    ReceiveInfo,
    drop_outputs,
    forget_forward,
    group_between,
    reduce_nothing,
    take_boundaries,
)

Sends = dict[int, list[tuple[dist.Work, dist.P2POp]]]
"""Messages on the way with their tensors, by microbatch."""


Crossing = tuple[Boundary, Boundary]
"""What a stage takes and hands over for one microbatch."""


class Observer(Protocol):
    """An object that is told when the actions of this rank compute."""

    def begin(self, op: Op, stage: int, microbatch: int) -> None:
        """Note that an action starts: its input is there."""

    def end(self) -> None:
        """Note that the action that began last has ended; called again when its loss has been computed."""


class Witness(Protocol):
    """An object that sees what a stage computes, such as to compute it again."""

    def computing(
        self, op: Op, stage: "RuntimeStage", microbatch: int, loss: Tensor | None = None
    ) -> AbstractContextManager[None]:
        """Return a context for an action's work.

        Before a backward, `kept_of` the stage has its inputs; after it ``grad_recv_info`` has the gradient that came,
        and ``bwd_cache`` that of its input. A backward of the last stage begins with `loss`.
        """

    def crossing(
        self, op: Op, receiver: int, microbatch: int, number: int, message: BoxMessage, tensor: Tensor
    ) -> None:
        """Note one of the messages to the stage `receiver` for its action, where stages lie on several devices.

        `number` is that of the message among all of these; it is handed over or has arrived.
        """


class RuntimeStage(PipelineStage):
    """A stage of the runtime whose buffers live only as long as they are needed.

    `module` has a field `microbatch`, which is set before its forward. `weight_gradients` keeps, after an input
    gradient, the weight gradients that were left out.
    """

    knows_its_neighbours = False
    """Whether it exchanges messages with its neighbours without help of the runtime."""

    def __init__(
        self,
        module: nn.Module,
        *,
        index: int,
        num_stages: int,
        device: torch.device,
        example_input: Tensor,
        example_output: Tensor,
        weight_gradients: WeightGradients | None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(
            module,
            index,
            num_stages,
            device,
            input_args=example_input,
            output_args=example_output,
            dw_builder=weight_gradients.take if weight_gradients else None,
            group=group,
        )
        self.example_input, self.example_output = example_input, example_output
        self.handed_over = Boundary(tensor=example_output)
        """What it hands over of the example."""
        self.crossings: Sequence[Crossing] = ()
        """What crosses in this step, by microbatch; none: all are as the example."""
        self._weight_gradients = weight_gradients
        self.observer: Observer | None = None
        self.position = Position()
        """What this rank does, which all its stages keep."""
        self.answered: Mapping[int, Sequence[int]] = {}
        """Backwards of the stage before, by the forward that it sends after them: their gradients have arrived."""
        self.witness: Witness | None = None
        self.traffic: HostTraffic | None = None
        """What moves to the host and back when the plan says; None where the plan does not say it."""
        self.keeps_graph = False
        """Whether the next backward keeps its graph, to be run again."""
        self.last_backward_ended: Callable[[int], None] | None = None
        """Called with the index of the stage when all gradients of a step are there."""
        self.forward_sends: Sends = {}
        self.backward_sends: Sends = {}

    def expect(self, taken: Boundary, handed_over: Boundary) -> None:
        """Change what this stage receives and hands over for one microbatch; before its first step."""
        self.handed_over = handed_over
        self.example_input, self.example_output = example_input, example_output = taken.tensor, handed_over.tensor
        told = PipelineStage(
            self.submod,
            self.stage_index,
            self.num_stages,
            self.device,
            input_args=example_input,
            output_args=example_output,
            group=self.group,
        )
        take_boundaries(self, told)

    def _setup_forward_recv_info(self, num_microbatches: int, has_backward: bool) -> None:
        self.args_recv_info.clear()  # of forwards that no backward followed, or of those that one did
        super()._setup_forward_recv_info(1, has_backward)
        (infos,) = self.args_recv_info.values()
        self.args_recv_info.update({index: _without_buffers(infos) for index in range(num_microbatches)})

    def _create_grad_recv_info(self, act_send_info: dict[int, list[int]]) -> tuple[ReceiveInfo, ...]:
        return _without_buffers(super()._create_grad_recv_info(act_send_info))

    def cross(self, crossings: Sequence[Crossing]) -> None:
        """Say what is received and handed over in the next step, by microbatch."""
        self.crossings = crossings
        self.submod.packings = [taken.packing for taken, _handed_over in crossings]

    def _crossing(self, microbatch: int) -> tuple[Tensor, Tensor]:
        if not self.crossings:
            return self.example_input, self.example_output
        taken, handed_over = self.crossings[microbatch]
        return taken.tensor, handed_over.tensor

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Ask for an input, into a new buffer."""
        return self._receives_into_new(self.args_recv_info[fwd_chunk_id], self._crossing(fwd_chunk_id)[0])

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Ask for the gradient of an output, into a new buffer."""
        if not self.has_backward or self.is_last:
            return []
        return self._receives_into_new(self.grad_recv_info[bwd_chunk_id], self._crossing(bwd_chunk_id)[1])

    def _receives_into_new(self, infos: tuple[ReceiveInfo, ...], like: Tensor) -> list[dist.P2POp]:
        """Return the receives of what crosses, into new buffers; of what needs no gradient there is none."""
        receives = []
        for info in infos:
            if not info.is_root_arg and info.tensor_meta is not None:
                info.buffer = torch.empty(like.shape, dtype=like.dtype, device=self.device)
                peer = self._resolve_peer_global_rank(info.source)
                group = group_between(self, info.source, self.stage_index)
                receives.append(dist.P2POp(dist.irecv, info.buffer, peer, group))
        return receives

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Post the sends here and leave none to the runtime, which would keep them to the end of the step."""
        self.forward_sends[fwd_chunk_id] = post(super().get_fwd_send_ops(fwd_chunk_id))
        if not self.has_backward:
            forget_forward(self, fwd_chunk_id)
        return []

    def release_fwd_send_outputs(self, fwd_chunk_id: int) -> None:
        """Keep an output that was sent until its backward, which may run again: torch 2.15 would drop it."""

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Post the sends here, as `get_fwd_send_ops` does."""
        gradients = self.bwd_cache.get(bwd_chunk_id, ())
        self.bwd_cache[bwd_chunk_id] = tuple(None if tensor is None else tensor.contiguous() for tensor in gradients)
        self.backward_sends[bwd_chunk_id] = post(super().get_bwd_send_ops(bwd_chunk_id))
        return []

    def finish_sends(self) -> None:
        """Wait for the messages that are still on the way."""
        for sends in (self.backward_sends, self.forward_sends):
            for microbatch in list(sends):
                _finish(sends, microbatch)

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run a forward; its input has arrived, so the gradients in `answered` have been received.

        Afterwards only the graph holds the input.
        """
        for microbatch in self.answered.get(fwd_chunk_id, ()):
            _finish(self.backward_sends, microbatch)
        self.submod.microbatch = fwd_chunk_id
        self._begin(Op.F, fwd_chunk_id)
        with self._moving(fwd_chunk_id), self._witnessed(Op.F, fwd_chunk_id):
            output = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self.end_action()
        if self._weight_gradients is not None:
            self._weight_gradients.check_forward(_("stage {stage}", stage=self.stage_index))
        if not self.is_last:
            check_output(self.stage_index, self._crossing(fwd_chunk_id)[1], output)
        _drop_buffers(self.args_recv_info[fwd_chunk_id])
        return output

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Tensor | None = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """Run a backward; its gradient has arrived, so the output that was sent has been received."""
        _finish(self.forward_sends, bwd_chunk_id)
        if self.traffic is not None:
            self.traffic.backward_begins(self.stage_index, bwd_chunk_id)
        op = Op.B if full_backward else Op.I
        self._begin(op, bwd_chunk_id)
        with self._witnessed(op, bwd_chunk_id, loss):
            if loss is not None:
                # The runtime would detach the output in place, which a loss that keeps it for a check forbids.
                drop_outputs(self, bwd_chunk_id)
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        self.end_action()
        _drop_buffers(self.grad_recv_info[bwd_chunk_id])

    def backward_ended_alone(self) -> None:
        """Clean up after a backward that is no action of the schedule, such as one that is measured."""

    def forget(self) -> None:
        """Drop the gradients of work that was no step, and the whole parameters that replicas have gathered for it."""
        for parameter in self.submod.parameters():
            parameter.grad = None
        for module in self.submod.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Compute the weight gradients that an input gradient has left."""
        self._begin(Op.W, bwd_chunk_id)
        with self._witnessed(Op.W, bwd_chunk_id):
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        self.end_action()

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """Reduce the gradients over replicas of the stage, whose last backward has ended."""
        super().perform_reduce_grad(grad_scale_factor)
        if not (isinstance(self.submod, FSDPModule) and hasattr(PipelineStage, "start_gradient_reduction")):
            self._reduce_further()

    def start_gradient_reduction(self) -> None:
        """Begin to reduce gradients of parameters that replicas share: from torch 2.15 on."""
        super().start_gradient_reduction()
        self._reduce_further()

    def _reduce_further(self) -> None:
        """Reduce the gradients that torch does not reduce."""
        if self.last_backward_ended is not None:
            self.last_backward_ended(self.stage_index)

    def _post_metadata_inference_cleanup(self) -> None:
        """Clear no gradients: nothing has run to find out what crosses between stages."""

    def backward_maybe_with_nosync(
        self, backward_type: Any, bwd_kwargs: dict[str, Any], last_backward: bool = False
    ) -> Any:
        """Run autograd, keeping the graph where `keeps_graph` says so, which the runtime's own method cannot."""
        if not self.keeps_graph:
            return super().backward_maybe_with_nosync(backward_type, bwd_kwargs, last_backward)
        assert backward_type == "full", "backwards are split by a weight builder"
        if isinstance(self.submod, FSDPModule):
            reduce_nothing(self.submod)
        torch.autograd.backward(bwd_kwargs["stage_output"], bwd_kwargs["output_grads"], retain_graph=True)
        return tuple(take_gradient(value) for value in bwd_kwargs["input_values"]), None

    @contextmanager
    def _moving(self, microbatch: int) -> Iterator[None]:
        """Move what the forward inside keeps, as planned."""
        if self.traffic is None or not self.has_backward:
            yield
            return
        with self.traffic.forward(self.stage_index, microbatch) as moved, self.submod.offload.into(moved):
            yield

    def _witnessed(self, op: Op, microbatch: int, loss: Tensor | None = None) -> AbstractContextManager[None]:
        if self.witness is None or not self.has_backward:
            return nullcontext()
        return self.witness.computing(op, self, microbatch, loss)

    def _begin(self, op: Op, microbatch: int) -> None:
        self.position.begin(op, self.stage_index, microbatch)
        if self.observer is not None:
            self.observer.begin(op, self.stage_index, microbatch)

    def end_action(self) -> None:
        """Tell the observer that the action has ended."""
        self.position.end()
        if self.observer is not None:
            self.observer.end()


def check_output(stage: int, expected: Tensor, output: Tensor) -> None:
    """Raise InputError where a stage hands over something else than the next one has been told to expect."""
    if (output.shape, output.dtype) != (expected.shape, expected.dtype):
        raise InputError(
            value=_described(output),
            rule=_("must be {expected}, as the next stage expects", expected=_described(expected)),
            place=_("the output of stage {stage}", stage=stage),
            remedy=_(
                "use autocast on all ranks alike, or not, and give batches the shape of the example where a part of "
                "the model cannot run without values"
            ),
        )


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def take_gradient(leaf: Tensor) -> Tensor | None:
    """Take the gradient of a stage's input away from it and return it."""
    gradient, leaf.grad = leaf.grad, None
    return gradient


def _finish(sends: Sends, microbatch: int) -> None:
    for work, _tensor in sends.pop(microbatch, ()):
        work.wait()


def post(ops: list[dist.P2POp]) -> list[tuple[dist.Work, dist.P2POp]]:
    """Start messages, each by itself; return their handles with their tensors."""
    return [(op.op(op.tensor, group=op.group, tag=op.tag, group_dst=op.group_peer), op) for op in ops]


def _without_buffers(infos: tuple[ReceiveInfo, ...]) -> tuple[ReceiveInfo, ...]:
    copies = tuple(copy.copy(info) for info in infos)
    _drop_buffers(copies)
    return copies


def _drop_buffers(infos: tuple[ReceiveInfo, ...]) -> None:
    for info in infos:
        info.buffer = None
