"""Execution of a resharding plan with point-to-point messages of torch.distributed."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from evenflow.cluster import Box, BoxMessage, ReshardingPlan, shape_of

Note = Callable[[int, BoxMessage, torch.Tensor], None]
"""Told of a message: its number among all of the plan, what it is, and what is handed over or has arrived."""
_Numbered = tuple[int, BoxMessage]


class StageExchange:
    """The part of one process in a resharding plan. Device d of the plan is the process of rank d in `group`.

    All processes of the plan do the same: post what `sends` and `receives` give, wait for it, call `arrived`.
    """

    def __init__(self, plan: ReshardingPlan, group: dist.ProcessGroup | None = None) -> None:
        self._me = dist.get_rank(group)
        self._group = group
        self._have, self._want = plan.sender.boxes.get(self._me), plan.receiver.boxes.get(self._me)
        self._transfers = self._own(plan.transfers)
        self._gathers = self._own(plan.gathers, first=len(plan.transfers))
        self.num_messages = len(plan.transfers) + len(plan.gathers)
        """Messages of the plan, between all processes."""

    def sends(self, part: torch.Tensor | None, note: Note | None = None) -> list[dist.P2POp]:
        """Return messages to others; `part` is what this process holds under the sender's layout."""
        shape = None if part is None else tuple(part.shape)
        if self._have is not None and shape != shape_of(self._have):
            raise ValueError(f"rank {self._me} sends a part of shape {shape}, but the layout gives it {self._have}")
        return self._posts(self._transfers, part, self._have, note)

    def receives(self, *, dtype: torch.dtype, device: torch.device | str) -> list[dist.P2POp]:
        """Return messages from others, each into a tensor of its own."""
        return [
            dist.P2POp(dist.irecv, _empty(message.box, dtype, device), group=self._group, group_peer=message.sender)
            for _, message in self._transfers
            if message.receiver == self._me != message.sender
        ]

    def arrived(
        self,
        receives: Sequence[dist.P2POp],
        part: torch.Tensor | None,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        note: Note | None = None,
    ) -> torch.Tensor | None:
        """Return what this process holds under the receiver's layout, or None where it is no receiver.

        `receives` have ended. Receivers of the same exchange what they have got now, so all of them call this.
        """
        if self._want is None:
            return None
        result = _empty(self._want, dtype, device)
        self._place(self._transfers, receives, part, self._have, result, note)
        sends = self._posts(self._gathers, result, self._want, note)
        gathered = [
            dist.P2POp(dist.irecv, _empty(message.box, dtype, device), group=self._group, group_peer=message.sender)
            for _, message in self._gathers
            if message.receiver == self._me
        ]
        finish([*sends, *gathered])
        self._place(self._gathers, gathered, None, None, result, note)
        return result

    def _own(self, messages: Sequence[BoxMessage], *, first: int = 0) -> list[_Numbered]:
        return [
            (number, message)
            for number, message in enumerate(messages, first)
            if self._me in (message.sender, message.receiver)
        ]

    def _posts(
        self, messages: Sequence[_Numbered], part: torch.Tensor | None, box: Box | None, note: Note | None
    ) -> list[dist.P2POp]:
        posts = []
        for number, message in messages:
            if message.sender == self._me != message.receiver:
                assert part is not None
                assert box is not None
                outgoing = _view(part, box, message.box).contiguous()
                if note is not None:
                    note(number, message, outgoing)
                posts.append(dist.P2POp(dist.isend, outgoing, group=self._group, group_peer=message.receiver))
        return posts

    def _place(
        self,
        messages: Sequence[_Numbered],
        receives: Sequence[dist.P2POp],
        part: torch.Tensor | None,
        box: Box | None,
        result: torch.Tensor,
        note: Note | None,
    ) -> None:
        """Copy the parts that arrived, and this process's own, into the result."""
        assert self._want is not None
        arrived = iter(receives)
        for number, message in messages:
            if message.receiver != self._me:
                continue
            if message.sender == self._me:
                assert part is not None
                assert box is not None
                source = _view(part, box, message.box)
            else:
                source = next(arrived).tensor
                if note is not None:
                    note(number, message, source)
            _view(result, self._want, message.box).copy_(source)


def reshard(
    plan: ReshardingPlan,
    part: torch.Tensor | None,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """Execute a plan; return this process's part under the receiver's layout, or None where it is no receiver.

    Device d of the plan is the process of rank d in `group`, by default of all. `part` is what this process holds under
    the sender's layout; None or anything where it is no sender. Every process of the plan has to call this, with the
    same plan. Not differentiable: a pipeline sends gradients with the plan of the exchanged layouts.
    """
    exchange = StageExchange(plan, group)
    receives = exchange.receives(dtype=dtype, device=device)
    finish([*exchange.sends(part), *receives])
    return exchange.arrived(receives, part, dtype=dtype, device=device)


def finish(operations: Sequence[dist.P2POp]) -> None:
    """Start all messages at once, and wait until they have ended."""
    for request in dist.batch_isend_irecv(list(operations)) if operations else []:
        request.wait()


def _empty(box: Box, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    return torch.empty(shape_of(box), dtype=dtype, device=device)


def _view(tensor: torch.Tensor, tensor_box: Box, box: Box) -> torch.Tensor:
    """Return the view of `box` in `tensor`, which is `tensor_box` of the whole."""
    for dimension, ((origin, _), (begin, end)) in enumerate(zip(tensor_box, box, strict=True)):
        tensor = tensor.narrow(dimension, begin - origin, end - begin)
    return tensor
