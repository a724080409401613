"""Sharding rules of elementwise operators, and of losses, which add up elementwise results."""

from dataclasses import replace

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.auto.sharding.rules.named_arguments import argument, in_dimensions, whole
from evenflow_torch.models.trace.dtensor_adapter import Call
from evenflow_torch.models.trace.operator_graph import AxisRule

_EACH = 0
"""The value of `reduction` for a loss of every element, not reduced."""


def elementwise(call: Call) -> set[AxisRule]:
    """Split any dimension of the result in all inputs that have it; others of size one or none serve all of it."""
    return _each(call, _result_shape(call))


def loss(call: Call) -> set[AxisRule]:
    """Split any dimension of a loss's inputs; a sum then is a sum of parts, and so is the mean of equal parts."""
    rules = _each(call, _result_shape(call))
    if argument(call, "reduction") == _EACH:
        return rules
    return {
        replace(unreduced, outputs=tuple(PARTIAL if split >= 0 else split for split in unreduced.outputs))
        for unreduced in rules
    }


def all_but(call: Call, dimension: int) -> set[AxisRule]:
    """Split any dimension but one, which results may have in another size."""
    rank = len(call.tensors()[0].shape)
    return in_dimensions(call, set(range(rank)) - {dimension % rank})


def _result_shape(call: Call) -> tuple[int, ...]:
    shapes = [tensor.shape for tensor in call.tensors()]
    rank = max((len(shape) for shape in shapes), default=0)
    return tuple(
        max(shape[len(shape) - rank + at] for shape in shapes if len(shape) - rank + at >= 0) for at in range(rank)
    )


def _each(call: Call, shape: tuple[int, ...]) -> set[AxisRule]:
    rules = {whole(call)}
    for dimension, size in enumerate(shape):
        inputs = []
        for tensor in call.tensors():
            at = dimension - len(shape) + len(tensor.shape)
            inputs.append(at if at >= 0 and tensor.shape[at] == size else REPLICATE)
        rules.add(AxisRule(inputs=tuple(inputs), outputs=(dimension,) * call.num_outputs))
    return rules
