"""What one part of a model costs: memory from its traces on fake tensors, times from a timer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from evenflow.model import NONE
from evenflow.profiles.from_model.part_times import PartTimes
from evenflow.profiles.from_model.timers import Timer
from evenflow.torch_model.checkpointing import offered_kinds
from evenflow.torch_model.made_tensors import made_inputs
from evenflow.torch_model.optimizers import parameter_bytes
from evenflow.torch_model.part_trace import trace
from evenflow.torch_model.parts import Part
from evenflow.torch_model.rows import runs_on_fakes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProfile:
    """Memory and times of one part for one microbatch."""

    name: str
    num_parameters: int
    parameter_bytes: int
    """Bytes of weights, gradients and optimizer state."""
    forward_flops: int
    activation_bytes: Mapping[str, int]
    """Bytes from the forward to the backward, by recompute kind; ends of the model have ``none`` only."""
    until_weight_bytes: int
    """Bytes from the input gradient to the weight gradient, without recomputation."""
    working_bytes: Mapping[str, int]
    """Bytes that forward or backward need at their peak beyond the activation, by recompute kind."""
    message_bytes: int
    """Bytes of its input and of the gradient that goes back, where the part before is on another rank."""
    times: PartTimes


def profile_part(part: Part, timer: Timer, optimizer: str, *, is_layer: bool) -> PartProfile:
    """Profile `part` under every recompute kind that it offers as a layer, or under ``none`` as an end of the model."""
    kinds = offered_kinds(part.module) if is_layer else (NONE,)
    with runs_on_fakes(part.name):
        traces = {kind: trace(part, kind) for kind in kinds}
    parameters = list(part.module.parameters())
    return PartProfile(
        name=part.name,
        num_parameters=sum(tensor.numel() for tensor in parameters),
        parameter_bytes=parameter_bytes(parameters, optimizer),
        forward_flops=sum(operator.cost.flops for operator in traces[NONE].forward),
        activation_bytes={kind: found.activation_bytes for kind, found in traces.items()},
        until_weight_bytes=traces[NONE].until_weight_bytes,
        working_bytes={kind: found.working_bytes for kind, found in traces.items()},
        message_bytes=2 * part.inputs[0].nbytes if part.takes_gradient else 0,
        times=timer.times(part, traces),
    )


def signature(part: Part) -> object:
    """Return what is equal for parts that cost the same: classes, attributes, shapes of parameters and inputs.

    A layer's number in the model is no difference.
    """
    modules = tuple(
        (name, type(module), tuple(sorted(_attributes(module).items()))) for name, module in part.module.named_modules()
    )
    tensors = [*part.module.named_parameters(), *part.module.named_buffers()]
    shapes = tuple((name, tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in tensors)
    return modules, shapes, repr(made_inputs((part.inputs, dict(part.named_inputs)), _shape_and_dtype))


def _attributes(module: nn.Module) -> dict[str, str]:
    """Attributes that a class adds to a module, as text; objects by their class alone."""
    apart = {*vars(nn.Module()), "layer_idx", "layer_id", "layer_number"}
    return {key: _text(value) for key, value in vars(module).items() if key not in apart}


def _text(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _shape_and_dtype(tensor: torch.Tensor) -> Any:
    return (tuple(tensor.shape), tensor.dtype)
