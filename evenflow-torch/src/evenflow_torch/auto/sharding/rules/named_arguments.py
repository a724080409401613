"""Rules by the names that torch gives the arguments of a call, and rules that treat all tensors alike."""

from collections.abc import Iterable
from typing import Any

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.models.trace.dtensor_adapter import Call, TensorArgument
from evenflow_torch.models.trace.operator_graph import AxisRule


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


def whole(call: Call) -> AxisRule:
    """Return the rule that splits nothing."""
    return alike(len(call.tensors()), call.num_outputs, REPLICATE)


def alike(num_inputs: int, num_outputs: int, split: int) -> AxisRule:
    """Return the rule that splits all tensors in the same dimension, or in none."""
    return AxisRule(inputs=(split,) * num_inputs, outputs=(split,) * num_outputs)


def linear(num_inputs: int, num_outputs: int) -> set[AxisRule]:
    """Return the rules that split nothing, of an operator that makes partial sums of partial sums."""
    return {alike(num_inputs, num_outputs, kind) for kind in (REPLICATE, PARTIAL)}


def in_dimensions(call: Call, dimensions: Iterable[int]) -> set[AxisRule]:
    """Return the rules that split nothing, or one of these dimensions of all tensors."""
    count = len(call.tensors())
    return {whole(call), *(alike(count, call.num_outputs, dimension) for dimension in dimensions)}
