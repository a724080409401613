"""The operations and bytes of the operators of experts, as kernels that take all experts at once would have them.

Rows are dealt to the experts and collected, with two products in between and the gate between these.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evenflow.cluster import OperatorCost

_DEALT, _DEALT_BACKWARD = 4, 5
"""Times that the rows of the experts are read or written while they are dealt and collected."""
_DEALING = 6
"""Kernels that sort and count the choices, deal rows and collect them."""
_GATED, _GATED_BACKWARD = (5, 2), (9, 3)
"""Times that a gate reads or writes what it gives, and its kernels: the activation function, and the product."""
_UNGATED, _UNGATED_BACKWARD = (2, 1), (3, 1)
_RESULTS = {
    "evenflow::experts": ("result", "rows", "inner", "activated"),
    "evenflow::experts_backward": ("of_hidden", "of_weights", "of_inner", "weighed"),
    "evenflow::experts_weight_gradients": ("of_up", "of_up_bias", "of_down", "of_down_bias"),
}


def is_of_experts(func: Any) -> bool:
    """Whether `func` is one of the operators of experts."""
    return isinstance(func, torch._ops.OpOverload) and func._schema.name in _RESULTS


def tensor_names(func: Any, args: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the tensors of a call with arguments `args`: those in, as far as they are there, and out."""
    bound = zip(func._schema.arguments, args, strict=True)
    inputs = (argument.name for argument, value in bound if "Tensor" in str(argument.type) and value is not None)
    return (*inputs, *_RESULTS[func._schema.name])


def experts_cost(func: Any, args: Sequence[Any], outputs: Sequence[Any]) -> OperatorCost:
    """Return the cost of one of the operators of experts."""
    call = _Call(func, args, outputs)
    has_gate = call.is_gated
    if func._schema.name == "evenflow::experts":
        times, calls = _GATED if has_gate else _UNGATED
        return OperatorCost.of_parts(
            call.moves({"rows": _DEALT}, _DEALING),
            call.product("rows", "up", "inner", summed=("rows", 2)),
            call.moves({"activated": times}, calls),
            call.product("activated", "down", "rows", summed=("activated", 2)),
        )
    if func._schema.name == "evenflow::experts_backward":
        times, calls = _GATED_BACKWARD if has_gate else _UNGATED_BACKWARD
        return OperatorCost.of_parts(
            call.moves({"weighed": _DEALT_BACKWARD}, _DEALING),
            call.product("weighed", "down", "activated", summed=("weighed", 2)),
            call.moves({"activated": times}, calls),
            call.product("of_inner", "up", "weighed", summed=("of_inner", 2)),
        )
    return OperatorCost.of_parts(
        call.product("rows", "of_up", "of_inner", summed=("rows", 1)),
        call.product("activated", "of_down", "weighed", summed=("activated", 1)),
    )


def working_bytes(func: Any, args: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Return the bytes of what one of the operators of experts makes and drops before it ends."""
    call = _Call(func, args, outputs)
    if func._schema.name == "evenflow::experts":
        return 2 * call.size("rows")  # results of the experts, and with their weights
    if func._schema.name == "evenflow::experts_backward":
        return 2 * call.size("weighed") + call.size("activated")  # gradients of the results, of the rows, of the gate's
    return 0


class _Call:
    def __init__(self, func: Any, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._names = list(tensor_names(func, args))
        tensors = (*(argument for argument in args if isinstance(argument, Tensor)), *outputs)
        self._tensors = dict(zip(self._names, tensors, strict=True))

    @property
    def is_gated(self) -> bool:
        """Whether the experts have a gate, whose product has two halves."""
        inner = self._tensors.get("inner")
        return inner is not None and inner.dim() == 3

    def size(self, name: str) -> int:
        """Return the bytes of a tensor."""
        return self._tensors[name].numel() * self._tensors[name].element_size()

    def moves(self, times: Mapping[str, int], launches: int) -> OperatorCost:
        """Return the cost of elementwise operators that read and write each tensor as many times as stated."""
        sizes = tuple(times.get(name, 0) * self.size(name) for name in self._names)
        return OperatorCost(tensor_bytes=sizes, dtype=self._dtype, launches=launches)

    def product(self, left: str, matrix: str, right: str, *, summed: tuple[str, int]) -> OperatorCost:
        """Return the cost of a product of rows with the matrix of their expert, any of the three being the result.

        `summed` is a tensor and its dimension, as the planner splits it: (experts, tokens, width). Over tokens sums are
        as long as an expert has rows.
        """
        count, experts = self._tensors[left].shape[0], self._tensors[matrix].shape[0]
        depth, width = (self._tensors[name].numel() // count for name in (left, right))
        return OperatorCost(
            flops=2 * count * depth * width,
            tensor_bytes=tuple(self.size(name) * (name in (left, matrix, right)) for name in self._names),
            dtype=self._dtype,
            depth=count // experts if matrix.startswith("of_") else depth,
            summed=(self._names.index(summed[0]), summed[1]),
        )

    @property
    def _dtype(self) -> str:
        return str(self._tensors[self._names[-1]].dtype).removeprefix("torch.")
