"""Finds the strided splits that may be useful: of dimensions that views merge behind others or split off them.

    (sequence, batch, hidden) --view--> (sequence * batch, hidden) --product--> … --view--> (sequence, batch, wide)

Here the rows of the product merge `sequence` blocks of samples, and a split of them all along the batch is as good as
one of the batch. Operators pass dimensions on, as their rules tell. Features, dimensions that parameters have too, are
not looked at: they keep the splits that matrices have.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from evenflow.cluster import WholeTensor, dimension_of
from evenflow.cluster.splits.view_groups import DimensionGroups, cuts_behind
from evenflow_torch.models.trace.operator_graph import AxisRule, Operator, OperatorGraph, Role, Value

_Dimension = tuple[Value, int]


def with_blocks(graph: OperatorGraph, rules: Callable[[Operator], Iterable[AxisRule]]) -> OperatorGraph:
    """Return the graph with `WholeTensor.blocks` set for operators' results; `rules` gives an operator's rules.

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
                    classes.join([(value, split) for value, split in placed if split >= 0])
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
    """Tell whether all dimensions that a rule splits have the same size, so that any kind of split fits them all."""
    placed = zip(tensors, (*rule.inputs, *rule.outputs), strict=True)
    split = [(tensor.shape, dimension_of(code)) for tensor, code in placed if code >= 0]
    # Rules of torch may speak of dimensions that a tensor does not have.
    return all(at < len(shape) for shape, at in split) and len({shape[at] for shape, at in split}) == 1


class _Classes:
    """Classes of dimensions that are the same, such as the rows of a product's input and of its result."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._above: dict[_Dimension, _Dimension] = {}
        self._of_parameters = [
            (Value(operator=index), dimension)
            for index, operator in enumerate(graph.operators)
            if operator.role is Role.PARAMETER
            for dimension in range(len(operator.outputs[0].shape))
        ]

    def of(self, dimension: _Dimension) -> _Dimension:
        """Return the dimension that stands for all of its class."""
        while (above := self._above.get(dimension, dimension)) != dimension:
            self._above[dimension] = self._above.get(above, above)
            dimension = above
        return dimension

    def join(self, those: list[_Dimension]) -> None:
        """Put dimensions into the same class."""
        for dimension in those[1:]:
            self._above[self.of(dimension)] = self.of(those[0])

    def of_parameters(self) -> set[_Dimension]:
        """Return the classes of the dimensions that parameters have."""
        return {self.of(dimension) for dimension in self._of_parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A view operator, with the tensor it reads and the one it returns."""

    groups: DimensionGroups
    source: tuple[Value, WholeTensor]
    result: tuple[Value, WholeTensor]

    def both_ways(self) -> "tuple[_View, _View]":
        """Return the view, and the one that undoes it."""
        back = tuple((after, before) for before, after in self.groups)
        return self, _View(groups=back, source=self.result, result=self.source)


def _features(views: Sequence[_View], classes: _Classes) -> set[_Dimension]:
    """Return the dimensions of parameters, and those that views make by merging or splitting only these."""
    features = classes.of_parameters()
    count = -1
    while count != len(features):
        count = len(features)
        for view in views:
            (value, tensor), (after, made) = view.source, view.result
            for inputs, outputs in view.groups:
                those = [classes.of((value, at)) for at in inputs if tensor.shape[at] > 1]
                if those and features.issuperset(those):
                    features |= {classes.of((after, at)) for at in outputs if made.shape[at] > 1}
    return features


def _blocks(graph: OperatorGraph, classes: _Classes) -> dict[Value, tuple[tuple[int, ...], ...]]:
    """Return the useful numbers of blocks of every dimension, carried through all views until nothing is added."""
    views = [
        direction
        for index, operator in enumerate(graph.operators)
        if operator.view is not None
        for direction in _View(
            groups=operator.view,
            source=(operator.inputs[0], graph.inputs(operator)[0]),
            result=(Value(operator=index), operator.outputs[0]),
        ).both_ways()
    ]
    barred = _features(views, classes)
    boundaries: dict[_Dimension, set[int]] = {}

    def add(view: _View) -> bool:
        (value, tensor), (after, made) = view.source, view.result
        here = [boundaries.get(classes.of((value, at)), set()) for at in range(len(tensor.shape))]
        more = False
        for at, cuts in enumerate(cuts_behind(view.groups, tensor.shape, made.shape, here)):
            same = classes.of((after, at))
            if same not in barred and not cuts <= boundaries.get(same, set()):
                boundaries.setdefault(same, set()).update(cuts)
                more = True
        return more

    grows = True
    while grows:
        grows = False
        for view in views:
            grows |= add(view)
    blocks = {}
    for index, operator in enumerate(graph.operators):
        for at, tensor in enumerate(operator.outputs):
            value = Value(operator=index, output=at)
            rows = [boundaries.get(classes.of((value, at)), set()) for at in range(len(tensor.shape))]
            if any(rows):
                blocks[value] = tuple(tuple(sorted(row)) for row in rows)
    return blocks


def _outputs(index: int, operator: Operator) -> tuple[Value, ...]:
    return tuple(Value(operator=index, output=output) for output in range(len(operator.outputs)))
