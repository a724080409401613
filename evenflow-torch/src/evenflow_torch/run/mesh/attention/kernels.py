"""Attention of some rows to some keys, with what is needed to put several such results together.

Of keys in parts, each part gives a result and the logarithm of its sum of exponentials; these weigh the results. In the
backward each part gets the whole result and the whole sum, and gives its part of the gradients.
[FlashAttention-2, arXiv:2307.08691, §3.1]
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_WIDEST, _WIDTH_STEP = 256, 8
"""Widths of heads that the CUDA kernel takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How scores become weights."""

    scale: float
    is_causal: bool = False
    """Of as many rows as keys: none sees those behind its own."""
    mask: Tensor | None = None
    """[..., rows, keys], bool or added to the scores."""


def forward(query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
    """Return the result [batch, heads, rows, width] and the logarithms of the sums [batch, heads, rows].

    Keys and values may have fewer heads; a row that sees no key has the result 0 and the logarithm -inf.
    """
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    kernel = _kernel(query, value, scores)
    if kernel == "cpu":
        result, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, scores.is_causal, scale=scores.scale
        )
        return result, sums
    if kernel == "cuda":
        result, sums, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, 0.0, scores.is_causal, scale=scores.scale
        )
        return result, sums
    logits = _logits(query, key, scores)
    sums = logits.logsumexp(-1)
    return (_weights(logits, sums) @ value.to(logits.dtype)).to(query.dtype), sums


def backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: Tensor, scores: Scores
) -> tuple[Tensor, Tensor, Tensor]:
    """Return these keys' part of the gradient of the query, and the gradients of keys and values.

    `result` and `sums` are those of all keys together.
    """
    keys, values = _for_each_head(query, key), _for_each_head(query, value)
    kernel = _kernel(query, value, scores)
    gradients: tuple[Tensor, Tensor, Tensor]
    if kernel == "cpu":
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, keys, values, result, sums, 0.0, scores.is_causal, scale=scores.scale
        )
    elif kernel == "cuda":
        nothing = torch.zeros(2, dtype=torch.uint64, device=query.device)  # the state of a dropout that there is not
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            gradient, query, keys, values, result, sums, None, None, query.shape[-2], key.shape[-2],
            0.0, scores.is_causal, nothing, nothing, scale=scores.scale,
        )  # fmt: skip
    else:
        gradients = _plain_backward(gradient, query, keys, values, result, sums, scores)
    of_query, of_keys, of_values = gradients
    return of_query, _of_few_heads(of_keys, key), _of_few_heads(of_values, value)


def merge(result: Tensor, sums: Tensor, other: Tensor, other_sums: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result and the sums of two parts of the keys together."""
    both = torch.logaddexp(sums, other_sums)
    shift = both.masked_fill(both == -math.inf, 0.0)

    def weighed(part: Tensor, own: Tensor) -> Tensor:
        return part.to(result.dtype) * (own - shift).exp().unsqueeze(-1)

    return weighed(result, sums) + weighed(other, other_sums), both


def precise(dtype: torch.dtype) -> torch.dtype:
    """Return the format that parts of a result are put together in."""
    return torch.promote_types(dtype, torch.float32)


def _kernel(query: Tensor, value: Tensor, scores: Scores) -> str:
    """Return the device whose fused kernel takes these tensors; empty where none does."""
    width = query.shape[-1]
    if scores.mask is not None or value.shape[-1] != width:
        return ""
    if query.device.type == "cuda":
        is_taken = query.dtype in (torch.float16, torch.bfloat16) and width <= _WIDEST and not width % _WIDTH_STEP
        return "cuda" if is_taken else ""
    return "cpu" if query.device.type == "cpu" else ""


def _for_each_head(query: Tensor, tensor: Tensor) -> Tensor:
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], dim=1)


def _of_few_heads(gradient: Tensor, like: Tensor) -> Tensor:
    heads = like.shape[1]
    return gradient if gradient.shape[1] == heads else gradient.unflatten(1, (heads, -1)).sum(2)


def _logits(query: Tensor, key: Tensor, scores: Scores) -> Tensor:
    kind = precise(query.dtype)
    logits = query.to(kind) @ key.to(kind).transpose(-1, -2) * scores.scale
    if scores.is_causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(hidden, -math.inf)
    if scores.mask is not None and scores.mask.dtype == torch.bool:
        return logits.masked_fill(~scores.mask, -math.inf)
    return logits if scores.mask is None else logits + scores.mask


def _weights(logits: Tensor, sums: Tensor) -> Tensor:
    return (logits - sums.masked_fill(sums == -math.inf, 0.0).unsqueeze(-1)).exp()


def _plain_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: Tensor, scores: Scores
) -> tuple[Tensor, Tensor, Tensor]:
    kind = precise(query.dtype)
    weights = _weights(_logits(query, key, scores), sums)
    gradient_there, query, key, value = (tensor.to(kind) for tensor in (gradient, query, key, value))
    common = (gradient_there * result.to(kind)).sum(-1, keepdim=True)
    of_logits = weights * (gradient_there @ value.transpose(-1, -2) - common) * scores.scale
    gradients = of_logits @ key, of_logits.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ gradient_there
    of_query, of_key, of_value = (tensor.to(gradient.dtype) for tensor in gradients)
    return of_query, of_key, of_value


def dropping(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    factors: Tensor,
    *,
    is_causal: bool,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute attention whose shares are multiplied with `factors` [batch, heads, rows, keys], as torch does it."""
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (tensor.repeat_interleave(times, -3) for tensor in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1) * factors @ value
