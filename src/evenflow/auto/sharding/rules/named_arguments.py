"""Arguments of a call by the names that they have in torch."""

from typing import Any

from evenflow.auto.trace.dtensor_adapter import Call, TensorArgument
from evenflow.auto.trace.operator_graph import AxisRule
from evenflow.cluster import REPLICATE


def argument(call: Call, name: str) -> Any:
    """Return an argument, or its default."""
    for index, one in enumerate(call.overload._schema.arguments):
        if one.name == name:
            given = dict(call.keywords).get(name, one.default_value)
            return call.arguments[index] if index < len(call.arguments) and not one.kwarg_only else given
    raise KeyError(name)


def tensor_names(call: Call) -> tuple[str, ...]:
    """Return the names of the arguments that are tensors, in the order of `Call.tensors`."""
    names = [one.name for one in call.overload._schema.arguments]
    given = (*zip(names, call.arguments, strict=False), *call.keywords)
    return tuple(name for name, value in given if isinstance(value, TensorArgument))


def rule(call: Call, splits: dict[str, int], outputs: tuple[int, ...]) -> AxisRule:
    """Return a rule by the names of the arguments; all that are not named are whole."""
    return AxisRule(inputs=tuple(splits.get(name, REPLICATE) for name in tensor_names(call)), outputs=outputs)


def whole(call: Call, num_outputs: int) -> AxisRule:
    """Return the rule that splits nothing."""
    return rule(call, {}, (REPLICATE,) * num_outputs)
