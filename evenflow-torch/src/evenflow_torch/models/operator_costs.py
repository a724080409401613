"""The cost of an operator from the shapes of its tensors: the one counter of traces, whatever they are made for."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from evenflow.cluster import OperatorCost
from evenflow_torch.models.experts.costs import experts_cost, is_of_experts

_ATTENTION_FORWARD, _ATTENTION_BACKWARD = 2, 5
"""Number of matrix products of fused attention: scores and values; backward the scores again and four gradients.
[FlashAttention-2, arXiv:2307.08691, §4.1]"""


def operator_cost(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], *, inputs: Sequence[Any], outputs: Sequence[Any]
) -> OperatorCost:
    """Return the cost of `func`, which runs, or is traced, with `args` and `kwargs`; tensors may be fake.

    `inputs` are the tensors among the arguments and `outputs` the results, in the order of `OperatorCost.tensor_bytes`;
    what is no tensor has no bytes. A higher-order operator, such as a region, has no operations of its own.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return OperatorCost(tensor_bytes=tuple(map(_bytes, (*inputs, *outputs))))
    name = func._schema.name.removeprefix("aten::")
    if func.is_view or name.removeprefix("new_").startswith("empty"):
        return OperatorCost(tensor_bytes=(0,) * (len(inputs) + len(outputs)), launches=0)
    if is_of_experts(func):
        return experts_cost(func, args, outputs)
    result: Any = outputs[0] if len(outputs) == 1 else outputs
    flops, first = _flops(func, args, kwargs, result), next(iter(outputs), None)
    is_fused_attention = "scaled_dot_product" in name
    return OperatorCost(
        flops=flops,
        tensor_bytes=_tensor_bytes(name, inputs, outputs),
        dtype=str(first.dtype).removeprefix("torch.") if isinstance(first, torch.Tensor) else "",
        depth=0 if is_fused_attention or result is outputs else flops // (2 * max(1, result.numel())),
        is_fused_attention=is_fused_attention,
    )


def _flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    """Count the operations of matrix products, convolutions and attention; elementwise operators count as none.

    Fused attention counts half with ``is_causal``, since kernels skip blocks that are masked completely
    [FlashAttention-2, §3.1]. A mask that is a tensor hides nothing here: its values are not known, and kernels compute
    every score before they apply it.
    """
    name = func._schema.name
    if "scaled_dot_product" in name:
        return _attention_flops(func, args, kwargs)
    if name == "aten::_grouped_mm":
        return _grouped_flops(args[0], args[1])
    formula = flop_registry.get(func.overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=result))


def _tensor_bytes(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[int, ...]:
    """Count the bytes of every tensor once; what is made like another tensor does not read it.

    A lookup in a table reads no more than it writes, which is counted with what it writes.
    """
    written = tuple(map(_bytes, outputs))
    if name == "embedding":
        return (0, *map(_bytes, inputs[1:]), *(2 * size for size in written))
    if name.endswith("_like") or name.startswith("new_"):
        return (*(0 for _ in inputs), *written)
    return (*map(_bytes, inputs), *written)


def _attention_flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    arguments = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    batch, heads, queries, width = arguments["query"].shape
    keys, value_width = arguments["key"].shape[-2], arguments["value"].shape[-1]
    product = batch * heads * queries * keys * (width + value_width)  # the mean of both kinds of product, doubled
    products = _ATTENTION_BACKWARD if "backward" in func._schema.name else _ATTENTION_FORWARD
    return products * product // (2 if arguments.get("is_causal") else 1)


def _grouped_flops(left: torch.Tensor, right: torch.Tensor) -> int:
    """Count rows of `left` times one matrix of `right` each or, both flat, a product for each group of rows."""
    if left.dim() == 2 and right.dim() == 3:
        return 2 * left.shape[0] * left.shape[1] * right.shape[2]
    if left.dim() == 2:
        return 2 * left.shape[0] * left.shape[1] * right.shape[1]
    return 2 * left.shape[0] * left.shape[1] * left.shape[2] * right.shape[-1]


def _bytes(value: Any) -> int:
    """Bytes of the elements of a tensor, but no more than of the storage, which an expanded tensor repeats."""
    if not isinstance(value, torch.Tensor):
        return 0
    return min(value.numel() * value.element_size(), value.untyped_storage().nbytes())
