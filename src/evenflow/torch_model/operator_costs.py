"""The cost of an operator from the shapes of its tensors: floating-point operations and bytes moved."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

_ATTENTION_FORWARD, _ATTENTION_BACKWARD = 2, 5
"""Number of matrix products of fused attention: scores and values; backward the scores again and four gradients.
[FlashAttention-2, arXiv:2307.08691, §4.1]"""


def operator_flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    """Count the operations of matrix products, convolutions and attention; elementwise operators count as none.

    `func` runs, or is traced, with `args` and `kwargs` and gives `result`; tensors may be fake. Fused attention counts
    half with ``is_causal``, since kernels skip blocks that are masked completely [FlashAttention-2, §3.1]. A mask that
    is a tensor hides nothing here: its values are not known, and kernels compute every score before they apply it.
    """
    name = func._schema.name
    if "scaled_dot_product" in name:
        return _attention_flops(func, args, kwargs)
    if name == "aten::_grouped_mm":
        return _grouped_flops(args[0], args[1])
    formula = flop_registry.get(func.overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=result))


def moved_bytes(func: Any, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Count the bytes read and written, each once; a lookup in a table reads no more than it writes."""
    written = sum(_bytes(tensor) for tensor in outputs)
    if func._schema.name == "aten::embedding":
        return 2 * written + _bytes(inputs[1])
    return written + sum(_bytes(tensor) for tensor in inputs)


def _attention_flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    batch, heads, queries, width = given["query"].shape
    keys, value_width = given["key"].shape[-2], given["value"].shape[-1]
    product = batch * heads * queries * keys * (width + value_width)  # the mean of both kinds of product, doubled
    products = _ATTENTION_BACKWARD if "backward" in func._schema.name else _ATTENTION_FORWARD
    return products * product // (2 if given.get("is_causal") else 1)


def _grouped_flops(left: torch.Tensor, right: torch.Tensor) -> int:
    """Count rows of `left` times one matrix of `right` each or, both flat, a product for each group of rows."""
    if left.dim() == 2 and right.dim() == 3:
        return 2 * left.shape[0] * left.shape[1] * right.shape[2]
    if left.dim() == 2:
        return 2 * left.shape[0] * left.shape[1] * right.shape[1]
    return 2 * left.shape[0] * left.shape[1] * left.shape[2] * right.shape[-1]


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements, but no more than of the storage, which an expanded tensor repeats."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
