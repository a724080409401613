"""Finds the strided splits that may be of use: of dimensions that views merge behind others, or split off them.

    (sequence, batch, hidden) --view--> (sequence * batch, hidden) --product--> … --view--> (sequence, batch, wide)

Here the rows of the product merge `sequence` blocks of samples, and a split of them all along the batch is as good as
one of the batch. Operators pass dimensions on, as their rules tell. Only dimensions without parameters are looked at:
those of features keep the splits that matrices have.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from evenflow.auto.trace.operator_graph import AxisRule, Operator, OperatorGraph, Role, Value
from evenflow.cluster import WholeTensor, dimension_of
from evenflow.cluster.splits.view_groups import DimensionGroups, cuts_behind

_Dimension = tuple[Value, int]


def with_blocks(graph: OperatorGraph, rules: Callable[[Operator], Iterable[AxisRule]]) -> OperatorGraph:
    """Return the graph with `WholeTensor.blocks` for what its operators make; `rules` are those of an operator.

    What is given to the graph, parameters and inputs, has none.
    """
    classes = _Classes(graph)
    for index, operator in enumerate(graph.operators):
        if operator.view is not None:
            source, result = operator.inputs[0], _outputs(index, operator)[0]
            for before, after in operator.view:
                if len(before) == len(after) == 1:
                    classes.join([(source, before[0]), (result, after[0])])
        elif operator.role is Role.COMPUTE:
            values = (*operator.inputs, *_outputs(index, operator))
            tensors = (*graph.inputs(operator), *operator.outputs)
            for rule in rules(operator):
                if is_uniform(rule, tensors):
                    placed = zip(values, (*rule.inputs, *rule.outputs), strict=True)
                    classes.join([(value, where) for value, where in placed if where >= 0])
    blocks = _blocks(graph, classes)
    operators = []
    for index, operator in enumerate(graph.operators):
        made = operator.outputs
        if operator.role in (Role.COMPUTE, Role.VIEW):
            made = tuple(
                replace(tensor, blocks=blocks.get(value, ()))
                for value, tensor in zip(_outputs(index, operator), operator.outputs, strict=True)
            )
        operators.append(replace(operator, outputs=made))
    return replace(graph, operators=tuple(operators))


def is_uniform(rule: AxisRule, tensors: tuple[WholeTensor, ...]) -> bool:
    """Tell whether all dimensions that a rule splits are of one size: then it does not matter how they are split."""
    placed = zip(tensors, (*rule.inputs, *rule.outputs), strict=True)
    split = [(tensor.shape, dimension_of(where)) for tensor, where in placed if where >= 0]
    # Rules of torch may speak of dimensions that a tensor does not have.
    return all(at < len(shape) for shape, at in split) and len({shape[at] for shape, at in split}) == 1


class _Classes:
    """Dimensions of values that are the same, such as the rows of a product's input and of its result."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._above: dict[_Dimension, _Dimension] = {}
        self._of_parameters = [
            (Value(operator=index), dimension)
            for index, operator in enumerate(graph.operators)
            if operator.role is Role.PARAMETER
            for dimension in range(len(operator.outputs[0].shape))
        ]

    def of(self, one: _Dimension) -> _Dimension:
        """Return the dimension that stands for all that are the same."""
        while (above := self._above.get(one, one)) != one:
            self._above[one] = self._above.get(above, above)
            one = above
        return one

    def join(self, those: list[_Dimension]) -> None:
        """Make dimensions the same."""
        for one in those[1:]:
            self._above[self.of(one)] = self.of(those[0])

    def of_parameters(self) -> set[_Dimension]:
        """Return those that parameters have."""
        return {self.of(one) for one in self._of_parameters}


def _blocks(graph: OperatorGraph, classes: _Classes) -> dict[Value, tuple[tuple[int, ...], ...]]:
    """Carry boundaries between dimensions through all views, until nothing is added."""
    barred = classes.of_parameters()
    found: dict[_Dimension, set[int]] = {}

    def add(view: DimensionGroups, source: tuple[Value, WholeTensor], result: tuple[Value, WholeTensor]) -> bool:
        (value, tensor), (after, made) = source, result
        here = [found.get(classes.of((value, at)), set()) for at in range(len(tensor.shape))]
        more = False
        for at, cuts in enumerate(cuts_behind(view, tensor.shape, made.shape, here)):
            same = classes.of((after, at))
            if same not in barred and not cuts <= found.get(same, set()):
                found.setdefault(same, set()).update(cuts)
                more = True
        return more

    views = [
        (operator.view, (operator.inputs[0], graph.inputs(operator)[0]), (Value(operator=index), operator.outputs[0]))
        for index, operator in enumerate(graph.operators)
        if operator.view is not None
    ]
    changed = True
    while changed:
        changed = False
        for view, source, result in views:
            back = tuple((after, before) for before, after in view)
            changed |= add(view, source, result)
            changed |= add(back, result, source)
    blocks = {}
    for index, operator in enumerate(graph.operators):
        for at, tensor in enumerate(operator.outputs):
            value = Value(operator=index, output=at)
            rows = [found.get(classes.of((value, one)), set()) for one in range(len(tensor.shape))]
            if any(rows):
                blocks[value] = tuple(tuple(sorted(row)) for row in rows)
    return blocks


def _outputs(index: int, operator: Operator) -> tuple[Value, ...]:
    return tuple(Value(operator=index, output=output) for output in range(len(operator.outputs)))
