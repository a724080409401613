"""A mode in which models run an accelerator's operators where those of the CPU, which fake tensors follow, differ."""

import inspect
from typing import Any, Self

import torch
from torch.nn.functional import dropout, pad, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from evenflow_torch.models.experts.library import as_one_operator


class AcceleratorOperators(TorchFunctionMode):
    """A mode in which models run the operators of accelerators.

    Attention is fused, the experts of a layer are one operator, and dropout masks have a byte an element. The CPU would
    fall back to attention that keeps all scores where the widths of queries and values differ (MLA), and where
    attention has a dropout of its own, which fused kernels draw again in the backward. Its masks of dropout have the
    format of what they mask.
    """

    def __enter__(self) -> Self:
        """Let models compute experts as one operator, and take over their attention and dropout."""
        self._experts = as_one_operator()
        self._experts.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Give experts, attention and dropout back."""
        super().__exit__(*error)
        self._experts.__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is scaled_dot_product_attention:
            return _fused_attention(*args, **(kwargs or {}))
        if func is dropout:
            bound = inspect.signature(dropout).bind(*args, **(kwargs or {}))
            bound.apply_defaults()
            values = bound.arguments
            if values["training"] and 0 < values["p"] < 1 and not values["inplace"]:
                return torch.native_dropout(values["input"], values["p"], True)[0]
        return func(*args, **(kwargs or {}))


def _fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    _dropout_p: float = 0.0,
    *others: Any,
    **named: Any,
) -> torch.Tensor:
    """Run attention without dropout, its values padded to the width of the queries."""
    named.pop("dropout_p", None)
    missing = max(0, query.shape[-1] - value.shape[-1])
    padded = pad(value, (0, missing)) if missing else value
    result = scaled_dot_product_attention(query, key, padded, attn_mask, 0.0, *others, **named)
    return result[..., :-missing] if missing else result
