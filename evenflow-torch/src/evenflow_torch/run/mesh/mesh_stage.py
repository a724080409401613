"""A stage of the runtime on several devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.schedule import Op
from evenflow_torch.run.engine.packing import Boundary
from evenflow_torch.run.engine.runtime_stage import RuntimeStage, post
from evenflow_torch.run.engine.torch_names import forget_forward, kept_of
from evenflow_torch.run.mesh.exchange import Note, StageExchange
from evenflow_torch.run.mesh.gathered import GatheredLayers
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Exchanges of a stage on several devices with its neighbours; None where there is no neighbour."""

    activations_in: StageExchange | None
    activations_out: StageExchange | None
    gradients_in: StageExchange | None
    gradients_out: StageExchange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherShape:
    """What a stage on several devices exchanges for microbatches of one shape."""

    links: Links
    taken: tuple[int, ...]
    """Shape of this device's part of the input."""
    handed_over: tuple[int, ...] | None
    """Shape of this device's part of the output; None where there is no next stage."""


class MeshStage(RuntimeStage):
    """A stage on several devices, of which this one has its part of everything.

    The runtime sees the pipeline alone: rank `rank` of `num_ranks`. What passes between stages may lie otherwise on the
    devices of the one than on those of the other, so every device exchanges parts with several others.
    """

    knows_its_neighbours = True

    def __init__(
        self,
        module: nn.Module,
        *,
        rank: int,
        num_ranks: int,
        links: Links,
        links_for: Callable[[Sequence[int]], OtherShape],
        parameters: MeshParameters,
        gathered: GatheredLayers,
        example_output: Tensor,
        **others: Any,
    ) -> None:
        super().__init__(module, example_output=example_output, **others)
        self._parameters_of_rank = parameters
        self._gathered = gathered
        self.group_rank, self.group_size = rank, num_ranks
        self.links = links
        self._links_for = links_for
        self._shapes: dict[tuple[int, ...], OtherShape] = {}
        self._arriving: dict[tuple[StageExchange, int], list[dist.P2POp]] = {}

    def run_with(self, shape: tuple[int, ...], num_microbatches: int) -> None:
        """Exchange what crosses for microbatches of a shape, from now on; raise InputError where devices cannot."""
        if shape not in self._shapes:
            self._shapes[shape] = self._links_for(shape)
        chosen = self._shapes[shape]
        self.links = chosen.links
        taken, handed_over = self.example_input, self.example_output
        if not self.is_first:
            taken = torch.empty(chosen.taken, dtype=taken.dtype, device="meta")
        if chosen.handed_over is not None:
            handed_over = torch.empty(chosen.handed_over, dtype=handed_over.dtype, device="meta")
        self.cross([(Boundary(tensor=taken), Boundary(tensor=handed_over))] * num_microbatches)

    def _warmup_forward_vote(self, has_backward: bool, received_acc: Tensor | None = None) -> Tensor:
        """Ask nobody: all shapes are given on every stage."""
        return torch.ones(1, dtype=torch.int32, device=self.device)

    def _warmup_backward_result(self, received_result: Tensor | None = None) -> Tensor:
        """Ask nobody, as `_warmup_forward_vote`."""
        return torch.ones(1, dtype=torch.int32, device=self.device)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Ask for the parts that make up this device's input."""
        return self._receives(self.links.activations_in, self.example_input.dtype, fwd_chunk_id)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Ask for the parts that make up this device's gradient."""
        return self._receives(self.links.gradients_in, self.example_output.dtype, bwd_chunk_id)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Post the sends here, as `RuntimeStage` does."""
        if self.links.activations_out is not None:
            (output,), _inputs = kept_of(self, fwd_chunk_id)
            note = self._note(Op.F, self.stage_index + 1, fwd_chunk_id)
            self.forward_sends[fwd_chunk_id] = post(self.links.activations_out.sends(output.detach(), note))
            if not self.has_backward:
                forget_forward(self, fwd_chunk_id)
        return []

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Post the sends here, as `RuntimeStage` does."""
        if self.links.gradients_out is not None:
            (gradient,) = self.bwd_cache.pop(bwd_chunk_id)
            assert gradient is not None
            note = self._note(Op.B, self.stage_index - 1, bwd_chunk_id)
            self.backward_sends[bwd_chunk_id] = post(self.links.gradients_out.sends(gradient, note))
        return []

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Tensor | None = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """Run a backward, with gradients reduced as they are made.

        A witness sets the gradients of one microbatch apart, so then they wait for the end of the backward; those that
        a split backward leaves for later wait for the weight gradient.
        """
        if full_backward and self.witness is None:
            self._parameters_of_rank.backward_begins(self.stage_index, is_last=last_backward)
        super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        self._gathered.ended()
        if full_backward:
            self._parameters_of_rank.backward_ended(self.stage_index, is_last=last_backward)

    def backward_ended_alone(self) -> None:
        """Free the parameters that the backward has gathered, so that modules have the split ones again."""
        self._gathered.ended()

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Compute weight gradients; behind them the gradients of the stage are reduced."""
        super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        self._parameters_of_rank.backward_ended(self.stage_index, is_last=last_backward)

    def _receives(self, exchange: StageExchange | None, dtype: torch.dtype, microbatch: int) -> list[dist.P2POp]:
        if exchange is None:
            return []
        receives = exchange.receives(dtype=dtype, device=self.device)
        self._arriving[exchange, microbatch] = receives
        return receives

    def _retrieve_recv_activations(self, fwd_chunk_id: int) -> tuple[Tensor, ...]:
        return (self._taken(Op.F, self.links.activations_in, fwd_chunk_id).requires_grad_(self.has_backward),)

    def _retrieve_recv_grads(self, bwd_chunk_id: int) -> tuple[Tensor, ...]:
        gradient = self._taken(Op.B, self.links.gradients_in, bwd_chunk_id)
        self.grad_recv_info[bwd_chunk_id][0].buffer = gradient  # for a witness; dropped behind the backward
        return (gradient,)

    def _taken(self, op: Op, exchange: StageExchange | None, microbatch: int) -> Tensor:
        assert exchange is not None
        receives = self._arriving.pop((exchange, microbatch))
        note = self._note(op, self.stage_index, microbatch)
        dtype = (self.example_input if op is Op.F else self.example_output).dtype
        taken = exchange.arrived(receives, None, dtype=dtype, device=self.device, note=note)
        assert taken is not None
        return taken

    def _note(self, op: Op, receiver: int, microbatch: int) -> Note | None:
        """Return what tells the witness of the messages to the stage `receiver` for its action."""
        if self.witness is None or not self.has_backward:
            return None
        return partial(self.witness.crossing, op, receiver, microbatch)
