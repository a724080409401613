"""Messages compared as they were sent and as they arrived, and the faults that spoil them on the way."""

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import Direction
from evenflow.cluster import BoxMessage
from evenflow.language import _
from evenflow.schedule import Op
from evenflow_torch.run.aa.bits import flip_bit
from evenflow_torch.run.aa.message_sums import Message, MessageSums
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.torch_names import kept_of
from evenflow_torch.run.mesh.mesh_stage import MeshStage
from evenflow_torch.run.values.aa_report import Fault


def direction_of(op: Op) -> Direction:
    """Return the half of the work that an action does."""
    return Direction.FORWARD if op is Op.F else Direction.BACKWARD


class MessageCheck:
    """The messages of this process in the steps that are checked.

    Between stages on one device each, actions take one message, and hand one over. Between stages on several, each
    device exchanges parts with several others: these are noted one by one, as they leave and as they arrive.
    """

    def __init__(self, pipe: Pipeline) -> None:
        self._pipe = pipe
        device = pipe.stages[0].device
        most = torch.tensor([max(map(_num_messages, pipe.stages))], device=device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        self._sums = MessageSums(
            pipe.schedule.num_stages, pipe.schedule.num_microbatches, device, pipe.replicas.pipeline,
            num_messages=int(most),
        )  # fmt: skip
        self._senders: dict[Message, int] = {}
        """Processes that have sent the messages to this one."""
        self.is_checked = False
        """Whether this step is."""
        self.fault: Fault | None = None
        """What spoils a message of this step."""
        self.injected: list[str] = []
        """Places of the flipped bits, in words."""
        self.num_received = 0
        """Messages whose checksums were compared."""
        self._num_messages = int(most)

    def taken(self, op: Op, stage: RuntimeStage, microbatch: int) -> None:
        """Note what has arrived for an action of a stage on one device."""
        if op is Op.W or isinstance(stage, MeshStage) or (stage.is_first if op is Op.F else stage.is_last):
            return
        tensor = (stage.args_recv_info if op is Op.F else stage.grad_recv_info)[microbatch][0].buffer
        if tensor is None:  # nothing is trained up to here, and no gradient comes
            return
        sender = stage.stage_index + (-1 if op is Op.F else 1)
        rank = int(self._pipe.schedule.stage_ranks[sender])
        self._arrived((direction_of(op), stage.stage_index, microbatch, 0), rank, tensor)

    def handed_over(self, op: Op, stage: RuntimeStage, microbatch: int) -> None:
        """Note what an action of a stage on one device hands over."""
        if not self.is_checked or isinstance(stage, MeshStage):
            return
        if op is Op.F and not stage.is_last:
            (output,), _inputs = kept_of(stage, microbatch)
            self._sums.sent((Direction.FORWARD, stage.stage_index + 1, microbatch, 0), output.detach())
        elif op in (Op.B, Op.I) and not stage.is_first:
            (gradient,) = stage.bwd_cache[microbatch]
            if gradient is not None:
                self._sums.sent((Direction.BACKWARD, stage.stage_index - 1, microbatch, 0), gradient)

    def crossing(
        self, op: Op, receiver: int, microbatch: int, number: int, message: BoxMessage, tensor: Tensor
    ) -> None:
        """Note a message between stages on several devices; see `evenflow_torch.run.engine.runtime_stage.Witness`."""
        place = direction_of(op), receiver, microbatch, number % self._num_messages  # other shapes may need more
        if message.receiver == dist.get_rank(self._pipe.replicas.pipeline):
            self._arrived(place, message.sender, tensor)
        elif self.is_checked:
            self._sums.sent(place, tensor)

    def _arrived(self, message: Message, sender: int, tensor: Tensor) -> None:
        """Spoil the message that a fault is for, and note the checksum of what has arrived.

        `sender` is the place of its process in the pipeline.
        """
        direction, stage, microbatch, _number = message
        fault = self.fault
        if fault is not None and fault.microbatch in (None, microbatch) and fault.direction in (None, direction):
            self.fault = None
            flip_bit(tensor)
            self.injected.append(
                _(
                    "the message to stage {stage}, microbatch {microbatch}, step {step}, {direction}",
                    stage=stage,
                    microbatch=microbatch,
                    step=fault.step + 1,
                    direction=direction,
                )
            )
        if self.is_checked:
            self._senders[message] = self._pipe.replicas.process_of(sender)
            self._sums.received(message, tensor.detach())
            self.num_received += 1

    def start(self, num_mismatches: int) -> None:
        """Begin to tell all processes the sums of the step, and what this one has seen; every process calls it."""
        self._sums.start(num_mismatches)

    def finish(self) -> tuple[list[tuple[Message, int | None]], int]:
        """Return the messages that arrived differently, and how many mismatches all processes had seen.

        With each stands the process that has sent it; None for a message to another process.
        """
        differing, num_seen = self._sums.finish()
        return [(message, self._senders.get(message)) for message in differing], num_seen


def _num_messages(stage: RuntimeStage) -> int:
    """Return how many messages carry what a stage takes for an action, at most."""
    if not isinstance(stage, MeshStage):
        return 1
    exchanges = stage.links.activations_in, stage.links.gradients_in
    return max((exchange.num_messages for exchange in exchanges if exchange is not None), default=1)
