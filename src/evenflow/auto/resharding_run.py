"""Carry out a resharding plan with point-to-point messages of torch.distributed; imported only where it runs."""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from evenflow.auto.layout import Box
from evenflow.auto.resharding import Message, ReshardingPlan


def reshard(
    plan: ReshardingPlan,
    part: torch.Tensor | None,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """What this process holds under the receiver's layout, or None where it is no receiver.

    Device d of the plan is the process of rank d. `part` is what this process holds under the sender's layout; None or
    anything where it is no sender. Every process of the plan has to call this, with the same plan. Not differentiable:
    a pipeline sends gradients with the plan of the exchanged layouts.
    """
    me = dist.get_rank()
    source, target = plan.sender.boxes.get(me), plan.receiver.boxes.get(me)
    if source is not None and (part is None or list(part.shape) != [end - begin for begin, end in source]):
        shape = None if part is None else tuple(part.shape)
        raise ValueError(f"rank {me} sends a part of shape {shape}, but the layout gives it {source}")
    if source is None and target is None:
        return None
    result = torch.empty([end - begin for begin, end in target], dtype=dtype, device=device) if target else None
    _exchange(plan.transfers, me, part, source, result, target, group)
    _exchange(plan.gathers, me, result, target, result, target, group)
    return result


def _exchange(
    messages: Sequence[Message],
    me: int,
    have: torch.Tensor | None,
    have_box: Box | None,
    want: torch.Tensor | None,
    want_box: Box | None,
    group: dist.ProcessGroup | None,
) -> None:
    """One phase: all sends and receives of this process at once."""
    operations, arrivals = [], []
    for message in messages:
        if me not in (message.sender, message.receiver):
            continue
        if message.sender == me:
            assert have is not None
            assert have_box is not None
            outgoing = _view(have, have_box, message.box)
            if message.receiver != me:
                operations.append(dist.P2POp(dist.isend, outgoing.contiguous(), message.receiver, group=group))
                continue
        assert want is not None
        assert want_box is not None
        place = _view(want, want_box, message.box)
        if message.sender == me:
            place.copy_(outgoing)
            continue
        buffer = torch.empty(place.shape, dtype=place.dtype, device=place.device)
        operations.append(dist.P2POp(dist.irecv, buffer, message.sender, group=group))
        arrivals.append((place, buffer))
    for request in dist.batch_isend_irecv(operations) if operations else []:
        request.wait()
    for place, buffer in arrivals:
        place.copy_(buffer)


def _view(tensor: torch.Tensor, tensor_box: Box, box: Box) -> torch.Tensor:
    """The part of `tensor`, which is `tensor_box` of the whole, that is `box` of the whole."""
    for dimension, ((origin, _), (begin, end)) in enumerate(zip(tensor_box, box, strict=True)):
        tensor = tensor.narrow(dimension, begin - origin, end - begin)
    return tensor
