"""Blocks that predict further tokens (multi-token prediction), which transformers leaves out of its models.

A block joins the hidden state with the embedding of the next token: a norm of each, and a product of both. Then comes
a layer like the last one of the model, and the output layer and loss once more. [DeepSeek-V3, arXiv:2412.19437, §2.2]
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.model import FULL, NONE
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.profile.part_profile import PartProfile, profile_part
from evenflow_torch.profile.part_times import PartTimes
from evenflow_torch.profile.timers import Timer


def predicted_tokens(config: Fields) -> int:
    """Return how many further tokens the model of a configuration predicts; 0 where that is not known."""
    try:
        return transformer_of_config(config).model.predicted_tokens
    except InputError:
        return 0


def joining_part(row: ModelRow, timer: Timer, optimizer: str, *, tensor_parallel: int) -> PartProfile:
    """Return the profile of what such a block does before its layer; each device has its share of the product."""
    last = row.body[-1]
    hidden = last.inputs[0]
    width = int(hidden.shape[-1])
    norms = (module for name, module in last.module.named_modules() if name and _is_norm(module, width))
    norm = next(norms, None) or nn.RMSNorm(width, dtype=hidden.dtype, device=hidden.device)
    module = _Joining(norm, width, -(-width // tensor_parallel), like=hidden)
    return profile_part(Part(name="joining", module=module, inputs=(hidden,)), timer, optimizer)


def further_block(layer: PartProfile, joining: PartProfile) -> PartProfile:
    """Return the profile of a block: a layer like the last one behind a joining part."""
    return replace(
        layer,
        name="MTP",
        num_parameters=layer.num_parameters + joining.num_parameters,
        parameter_bytes=layer.parameter_bytes + joining.parameter_bytes,
        forward_flops=layer.forward_flops + joining.forward_flops,
        activation_bytes=_with_joining(layer.activation_bytes, joining),
        fused_activation_bytes=_with_joining(layer.fused_activation_bytes, joining),
        until_weight_bytes=layer.until_weight_bytes + joining.until_weight_bytes,
        working_bytes={kind: max(size, joining.working_bytes[NONE]) for kind, size in layer.working_bytes.items()},
        times=_times(layer.times, joining.times),
    )


def further_blocks(block: PartProfile, depth: int, *, embedding_bytes: int) -> tuple[PartProfile, ...]:
    """Return the profiles of `depth` blocks, all in one stage: the first has a copy of the embedding."""
    first = replace(block, parameter_bytes=block.parameter_bytes + embedding_bytes)
    return (first, *[block] * (depth - 1))


def with_losses(tail: PartProfile, depth: int, *, kept_bytes: int | None) -> PartProfile:
    """Return the profile of a tail with the losses of `depth` further tokens beside its own.

    They keep `kept_bytes` until their backwards, or each as much as the tail does.
    """
    times = tail.times
    own = {
        kind: size * (1 + depth) if kept_bytes is None else size + kept_bytes
        for kind, size in tail.activation_bytes.items()
    }
    return replace(
        tail,
        forward_flops=tail.forward_flops * (1 + depth),
        activation_bytes=own,
        fused_activation_bytes={kind: size * (1 + depth) for kind, size in tail.fused_activation_bytes.items()},
        until_weight_bytes=tail.until_weight_bytes * (1 + depth),
        times=replace(
            times,
            forward_ns=times.forward_ns * (1 + depth),
            backward_ns={kind: time_ns * (1 + depth) for kind, time_ns in times.backward_ns.items()},
            weight_ns=times.weight_ns * (1 + depth),
        ),
    )


class _Joining(nn.Module):
    """Norms of the hidden state and of the embedded tokens, and the product that makes one of both."""

    def __init__(self, norm: nn.Module, width: int, share: int, *, like: torch.Tensor) -> None:
        super().__init__()
        self.norms = nn.ModuleList(copy.deepcopy(norm) for _input in range(2))
        self.product = nn.Linear(2 * width, share, bias=False, dtype=like.dtype, device=like.device)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        # The embedded tokens, which are as large as the hidden state.
        return self.product(torch.cat([norm(hidden) for norm in self.norms], dim=-1))


def _is_norm(module: nn.Module, width: int) -> bool:
    sizes = [tuple(parameter.shape) for parameter in module.parameters()]
    return type(module).__name__.endswith("Norm") and sizes[:1] == [(width,)]


def _with_joining(sizes: Mapping[str, int], joining: PartProfile) -> dict[str, int]:
    """Return what a block keeps: under full recomputation the embedded tokens, beside what its layer keeps."""
    of_input = joining.message_bytes // 2
    return {kind: size + (of_input if kind == FULL else joining.activation_bytes[NONE]) for kind, size in sizes.items()}


def _times(layer: PartTimes, joining: PartTimes) -> PartTimes:
    further_ns = joining.backward_ns[NONE]
    return PartTimes(
        forward_ns=layer.forward_ns + joining.forward_ns,
        backward_ns={
            kind: time_ns + further_ns + (joining.forward_ns if kind == FULL else 0)
            for kind, time_ns in layer.backward_ns.items()
        },
        weight_ns=layer.weight_ns + joining.weight_ns,
        spread=layer.spread,
        exchanges_tokens=layer.exchanges_tokens,
        halves=layer.halves,  # what joins comes before the layer's attention, and counts with it
    )
