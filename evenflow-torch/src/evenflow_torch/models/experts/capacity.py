"""The capacity of experts: how many of the tokens routed together each of them takes, and which are dropped.

    room of an expert = ceil(factor x tokens x experts of a token / experts)

Of more choices of one expert those of least weight are dropped, of equal ones the later; so Megatron-LM's policy
``probs`` does. What is dropped adds nothing to the result: the residual connection alone carries the token on.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def kept_choices(index: Tensor, weights: Tensor, num_experts: int, factor: float) -> Tensor:
    """Return which choices [tokens, k] their experts have room for, of tokens that are routed together.

    `index` and `weights` are [tokens, k]. An index that is no expert's is none of theirs, and stays.
    """
    room = math.ceil(index.numel() / num_experts * factor)
    chosen = index.flatten().clamp(max=num_experts)
    order = torch.argsort(weights.detach().flatten(), descending=True, stable=True)
    order = order[torch.argsort(chosen[order], stable=True)]  # expert by expert, the largest weights first
    counts = torch.bincount(chosen, minlength=num_experts + 1)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[chosen[order]]
    return ((places < room) | (chosen == num_experts)).view(index.shape)


def within_capacity(index: Tensor, weights: Tensor, num_experts: int, factor: float) -> Tensor:
    """Return `index` with no expert, `num_experts`, in place of what is dropped."""
    return index.masked_fill(~kept_choices(index, weights, num_experts, factor), num_experts)


def limit_experts(module: nn.Module, factor: float, groups: int) -> None:
    """Let an experts module of transformers drop choices before it computes, in whatever way that is.

    Its tokens are so many groups of equally many, one after the other, each of which is routed apart. Dropped choices
    get the weight zero.
    """
    module.register_forward_pre_hook(_weights_within(factor, groups))


def _weights_within(factor: float, groups: int) -> Callable[..., tuple[Any, ...]]:
    def weigh(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, index, weights = arguments
        pairs = zip(index.chunk(groups), weights.chunk(groups), strict=True)
        kept = torch.cat([kept_choices(*pair, module.down_proj.shape[0], factor) for pair in pairs])
        return hidden, index, weights * kept.to(weights.dtype)

    return weigh
