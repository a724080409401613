"""The experts of a model of transformers, shared out over devices: each has its part of them, and as many rows.

Where all loads are equal, a device gets as many rows of tokens from the others as it sends them. So its part of the
experts computes its own tokens' choices, taken modulo its number of experts, as long as no other device is there; in
processes that all run the layer at once, rows travel to the devices of their experts and back, in equal parts.

    tokens ── rows of choices ── all-to-all ── experts ── all-to-all ── rows ── weighed sum
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import all_to_all_single_autograd

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow_torch.models.experts.library import is_experts
from evenflow_torch.models.parts import Part

_OPTION = "--expert-parallel"


def share_out_experts(model: nn.Module, devices: int, config: Fields) -> None:
    """Leave in every layer of `model`, which `config` describes, the experts of one of as many devices.

    Raises:
        InputError: a model without experts, or of a number of them that does not divide by `devices`.
    """
    modules = [module for module in model.modules() if is_experts(module)]
    if not modules:
        raise InputError(
            value=devices,
            rule=_("must be 1 for a model without experts"),
            place=_OPTION,
        )
    for module in modules:
        _share_out(module, devices, config)


def has_experts(part: Part) -> bool:
    """Whether a part has experts of transformers."""
    return any(map(is_experts, part.module.modules()))


def exchanges_between_processes(devices: int) -> bool:
    """Whether this is one of as many processes, between which rows of tokens travel."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() == devices


def _share_out(module: Any, devices: int, config: Fields) -> None:
    count = module.down_proj.shape[0]
    if count % devices:
        raise InputError(
            value=count,
            rule=_("experts must divide by the {devices} devices of --expert-parallel", devices=devices),
            place=config.place(),
        )
    for name, parameter in list(module.named_parameters(recurse=False)):
        if parameter.shape[0] == count:
            own = parameter.detach()[: count // devices].clone()
            setattr(module, name, nn.Parameter(own, requires_grad=parameter.requires_grad))
    if hasattr(module, "num_experts"):
        module.num_experts = count // devices
    module.register_forward_pre_hook(_send)
    module.register_forward_hook(_collect)
    module.__dict__["_devices_of_experts"] = devices


def _send(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a device's own experts are called with: choices among them alone, of rows that came from all."""
    hidden, index, weights = arguments
    own = index % module.down_proj.shape[0]
    if isinstance(hidden, FakeTensor) or not exchanges_between_processes(module.__dict__["_devices_of_experts"]):
        return hidden, own, weights
    rows = hidden.repeat_interleave(index.shape[1], dim=0)
    module.__dict__["_weights_of_rows"] = weights
    return _exchanged(rows), own.reshape(-1, 1), torch.ones_like(weights).reshape(-1, 1)


def _collect(module: Any, _arguments: tuple[Any, ...], result: Tensor) -> Tensor:
    """Return the weighed sum of what the experts of each token gave, back from all devices."""
    weights = module.__dict__.pop("_weights_of_rows", None)
    if weights is None:
        return result
    rows = _exchanged(result).view(*weights.shape, -1)
    return (rows * weights.unsqueeze(-1)).sum(1).to(result.dtype)


def _exchanged(rows: Tensor) -> Tensor:
    """Return as many rows, an equal part of them from every process.

    Rows that do not divide travel with a few made up, as the slots of a capacity do.
    """
    processes = dist.get_world_size()
    missing = -len(rows) % processes
    padded = nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows
    assert dist.group.WORLD is not None
    received: Tensor = all_to_all_single_autograd(padded.contiguous(), None, None, dist.group.WORLD)
    return received[: len(rows)]
