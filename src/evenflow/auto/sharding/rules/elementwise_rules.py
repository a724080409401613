"""Rules of operators that do the same with every element, and of losses that add up what comes of it."""

from evenflow.auto.sharding.rules.named_arguments import argument, whole
from evenflow.auto.trace.dtensor_adapter import Call
from evenflow.auto.trace.operator_graph import AxisRule
from evenflow.cluster import PARTIAL, REPLICATE

_EACH = 0
"""The reduction of a loss that is none."""


def elementwise(call: Call) -> set[AxisRule]:
    """Split any dimension of the result in all inputs that have it; others of size one or none serve all of it."""
    return _each(call, _result_shape(call))


def loss(call: Call) -> set[AxisRule]:
    """Split any dimension; the sum of all is a sum of parts, and so is the mean of equal parts."""
    rules = _each(call, _result_shape(call))
    if argument(call, "reduction") == _EACH:
        return rules
    return {
        AxisRule(inputs=one.inputs, outputs=tuple(PARTIAL if where >= 0 else where for where in one.outputs))
        for one in rules
    }


def all_but(call: Call, dimension: int) -> set[AxisRule]:
    """Split any dimension but one, which results may have in another size."""
    rank = len(call.tensors()[0].shape)
    num_outputs = len(call.overload._schema.returns)
    return {whole(call, num_outputs)} | {
        AxisRule(inputs=(one,) * len(call.tensors()), outputs=(one,) * num_outputs)
        for one in range(rank)
        if one != dimension % rank
    }


def _result_shape(call: Call) -> tuple[int, ...]:
    shapes = [one.shape for one in call.tensors()]
    rank = max((len(shape) for shape in shapes), default=0)
    return tuple(
        max(shape[len(shape) - rank + at] for shape in shapes if len(shape) - rank + at >= 0) for at in range(rank)
    )


def _each(call: Call, shape: tuple[int, ...]) -> set[AxisRule]:
    num_outputs = len(call.overload._schema.returns)
    rules = {whole(call, num_outputs)}
    for dimension, size in enumerate(shape):
        inputs = []
        for tensor in call.tensors():
            at = dimension - len(shape) + len(tensor.shape)
            inputs.append(at if at >= 0 and tensor.shape[at] == size else REPLICATE)
        rules.add(AxisRule(inputs=tuple(inputs), outputs=(dimension,) * num_outputs))
    return rules
