"""One forward and one backward of a part, operator by operator, and what stays alive between them.

    forward    operators                             alive after it: the activation
    backward   input gradient: what the gradient of the input follows from, recomputation included
               weight gradient: the rest; it waits with the storages that it reads and does not make

No second run separates the two halves of the backward: walking back from the gradient of the input along the storages
that operators read and write finds the input gradient. [ZeroBubble, arXiv:2401.10241, §2]
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import get_gradient_edge

from evenflow_torch.models.accelerator_operators import AcceleratorOperators
from evenflow_torch.models.checkpointing import recomputing
from evenflow_torch.models.fused_storage import fused_bytes
from evenflow_torch.models.live_storage import ExecutedOperator, StorageLog
from evenflow_torch.models.made_tensors import Make, copy_with, first_tensor, made_inputs, make_empty, tensors_in
from evenflow_torch.models.parts import Part

_EXPERTS = "evenflow.experts.default"
"""The forward of the experts of a layer, as one operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTrace:
    """The operators of a part for one microbatch under one recompute kind, and what stays alive."""

    forward: tuple[ExecutedOperator, ...]
    backward: tuple[ExecutedOperator, ...]
    weight: tuple[ExecutedOperator, ...]
    """The operators of the backward that only the weight gradients need."""
    activation_bytes: int
    """Bytes alive from the forward to the backward."""
    fused_activation_bytes: int
    """As `activation_bytes`, with elementwise operators fused: see `fused_bytes`."""
    until_weight_bytes: int
    """Bytes alive between the input gradient and the weight gradient; meaningful without recomputation."""
    working_bytes: int
    """Bytes that forward or backward need at their peak beyond the activation, without gradients of parameters."""

    @property
    def computes_experts_again(self) -> bool:
        """Whether the backward begins with the forward of experts."""
        return any(operator.name == _EXPERTS for operator in self.backward)


def trace(part: Part, kind: str, *, make: Make = make_empty, fake: bool = True) -> PartTrace:
    """Run `part` once forward and backward, on fake tensors unless told otherwise, with tensors from `make`."""
    with FakeTensorMode() if fake else nullcontext():
        module = copy_with(part.module, make)
        named = made_inputs(dict(part.named_inputs), make)
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter)  # as from the microbatch before, so that gradients add up
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        token = torch.zeros((), requires_grad=True)
        log = StorageLog([token, *module.parameters(), *gradients, *module.buffers(), *tensors_in(named)])
        with recomputing(module, kind), log, AcceleratorOperators() if fake else nullcontext():
            return _run(module, part, named, token, log, make)


class _Source(torch.autograd.Function):
    """Hands over the input as if a part before had made it, and notes the gradient that comes back for it.

    A leaf would do neither: autograd holds on to leaves, which the input of a layer is not.
    """

    @staticmethod
    def forward(ctx: Any, _token: torch.Tensor, value: list[torch.Tensor], noted: list[torch.Tensor]) -> torch.Tensor:
        ctx.noted = noted
        return value.pop()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.noted.append(gradients[0])
        return None, None, None


def source(token: torch.Tensor, value: list[torch.Tensor], noted: list[torch.Tensor]) -> torch.Tensor:
    """Return the tensor that `value` holds, taken out of it, as a result of the leaf `token`.

    `noted` gets its gradient in the backward.
    """
    result = _Source.apply(token, value, noted)
    assert isinstance(result, torch.Tensor)
    return result


def _run(
    module: torch.nn.Module, part: Part, named: dict[str, Any], token: torch.Tensor, log: StorageLog, make: Make
) -> PartTrace:
    noted: list[torch.Tensor] = []
    inputs = list(made_inputs(part.inputs, make))
    if part.takes_gradient:
        inputs = [source(token, [inputs.pop(0)], noted), *inputs]
    first, base_bytes = len(log.operators), log.storages.live_bytes
    result = first_tensor(module(*inputs, **named))
    forward = log.operators[first:]
    edge, shape, dtype, device = get_gradient_edge(result), result.shape, result.dtype, result.device
    del result, inputs
    activation_bytes, living = log.storages.live_bytes, log.storages.living()
    working_bytes = log.storages.peak_bytes - max(base_bytes, activation_bytes)

    gradient = torch.ones(shape, dtype=dtype, device=device)
    begin, log.storages.peak_bytes = len(log.operators), log.storages.live_bytes
    torch.autograd.backward([edge], [gradient])
    backward = log.operators[begin:]
    weight = _weight_operators(backward, {log.storages.number(tensor) for tensor in noted})
    return PartTrace(
        forward=tuple(forward),
        backward=tuple(backward),
        weight=tuple(weight),
        activation_bytes=activation_bytes,
        fused_activation_bytes=fused_bytes(living - log.known, forward, backward, log.storages.size_bytes),
        until_weight_bytes=_waiting_bytes(weight, log),
        working_bytes=max(working_bytes, log.storages.peak_bytes - activation_bytes),
    )


def _weight_operators(backward: Sequence[ExecutedOperator], input_gradient: set[int]) -> list[ExecutedOperator]:
    """Return the operators from which the gradient of the input does not follow."""
    needed, weight = set(input_gradient), []
    for operator in reversed(backward):
        if operator.writes & needed:
            needed |= operator.reads
        else:
            weight.append(operator)
    return weight[::-1]


def _waiting_bytes(weight: Sequence[ExecutedOperator], log: StorageLog) -> int:
    made = frozenset().union(*(operator.writes for operator in weight))
    read = frozenset().union(*(operator.reads for operator in weight))
    return sum(log.storages.size_bytes(number) for number in read - made - log.known)
