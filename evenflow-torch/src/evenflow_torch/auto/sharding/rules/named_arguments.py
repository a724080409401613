"""Looks up the arguments of a call by their names in torch."""

from typing import Any

from evenflow.cluster import REPLICATE
from evenflow_torch.auto.trace.dtensor_adapter import Call, TensorArgument
from evenflow_torch.auto.trace.operator_graph import AxisRule


def argument(call: Call, name: str) -> Any:
    """Return an argument, or its default."""
    for index, parameter in enumerate(call.overload._schema.arguments):
        if parameter.name == name:
            keyword = dict(call.keywords).get(name, parameter.default_value)
            return call.arguments[index] if index < len(call.arguments) and not parameter.kwarg_only else keyword
    raise KeyError(name)


def tensor_names(call: Call) -> tuple[str, ...]:
    """Return the names of the arguments that are tensors, in the order of `Call.tensors`."""
    names = [parameter.name for parameter in call.overload._schema.arguments]
    arguments = (*zip(names, call.arguments, strict=False), *call.keywords)
    return tuple(name for name, value in arguments if isinstance(value, TensorArgument))


def rule(call: Call, splits: dict[str, int], outputs: tuple[int, ...]) -> AxisRule:
    """Return a rule by the names of the arguments; all that are not named are whole."""
    return AxisRule(inputs=tuple(splits.get(name, REPLICATE) for name in tensor_names(call)), outputs=outputs)


def whole(call: Call, num_outputs: int) -> AxisRule:
    """Return the rule that splits nothing."""
    return rule(call, {}, (REPLICATE,) * num_outputs)
