"""How plain data or context parallelism runs each operator: samples, or their positions, stay in place.

The dimension is followed from the inputs through all operators. Each gets the rule that moves the fewest bytes, none as
far as there are rules: activations are split by samples, parameters are read whole, gradients of parameters are sums.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evenflow.cluster import PARTIAL, REPLICATE, WholeTensor, is_even
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable
from evenflow_torch.models.trace.operator_graph import ATTENTION, AxisRule, Operator, OperatorGraph, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSplits:
    """The rule that every operator, views included, follows on one axis."""

    rules: Mapping[int, AxisRule]
    """The rule of each operator, by its index; rules of parameters and inputs have no inputs."""


def sample_splits(
    graph: OperatorGraph, table: StrategyTable, axis_size: int, *, dimension: int = 0, by_expert: bool = False
) -> SampleSplits:
    """Follow a dimension of the first input through the graph: 0 for samples, 1 for their positions.

    With `by_expert` the devices have different experts too, to which tokens go all-to-all.
    """
    entry = next(operator.outputs[0] for operator in graph.operators if operator.role is Role.INPUT)
    experts = expert_parameters(graph, origins_of(graph)) if by_expert else frozenset()
    tracer = _Tracer(graph=graph, table=table, axis_size=axis_size, lead=entry.shape[: dimension + 1], experts=experts)
    rules = dict(tracer.rules())
    return SampleSplits(rules={index: rules[index] for index in range(len(graph.operators))})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracer:
    graph: OperatorGraph
    table: StrategyTable
    axis_size: int
    lead: tuple[int, ...]
    """The first dimensions of the first input, up to the one that is followed."""
    experts: frozenset[int]
    """Parameters that are split by expert."""

    def rules(self) -> Iterator[tuple[int, AxisRule]]:
        """Yield every operator's rule: those of the forward, then incoming gradients, then the backward."""
        known: dict[int, AxisRule] = {}
        origins = origins_of(self.graph)
        order = sorted(range(len(self.graph.operators)), key=self._when)
        for index in order:
            operator = self.graph.operators[index]
            if operator.inputs:
                known[index] = self._cheapest(operator, known, origins, with_samples=index in origins.samples)
            else:
                own = self._by_expert if index in self.experts else self._given
                known[index] = AxisRule(inputs=(), outputs=tuple(own(operator, output) for output in operator.outputs))
            yield index, known[index]

    def _when(self, index: int) -> tuple[int, int]:
        operator = self.graph.operators[index]
        return (1 if operator.role is Role.TANGENT else 2 if operator.backward else 0, index)

    def _given(self, operator: Operator, tensor: WholeTensor) -> int:
        split = len(self.lead) - 1
        has_it = operator.role in (Role.INPUT, Role.TANGENT) and tensor.shape[: split + 1] == self.lead
        return split if has_it and is_even(tensor, (split,), (self.axis_size,)) else REPLICATE

    def _by_expert(self, _operator: Operator, tensor: WholeTensor) -> int:
        return 0 if is_even(tensor, (0,), (self.axis_size,)) else REPLICATE

    def _cheapest(
        self, operator: Operator, known: Mapping[int, AxisRule], origins: "Origins", *, with_samples: bool
    ) -> AxisRule:
        tensors = self.graph.inputs(operator)
        before = [known[value.operator].outputs[value.output] for value in operator.inputs]
        whole = [value.operator in origins.parameters for value in operator.inputs]

        def key(rule: AxisRule) -> tuple[float, int, int, tuple[int, ...], tuple[int, ...]]:
            moved = sum(
                _moved_bytes(*pair, tensor, self.axis_size, stays_whole=stays)
                for pair, tensor, stays in zip(zip(before, rule.inputs, strict=True), tensors, whole, strict=True)
            )
            splits = sum(split >= 0 for split in (*rule.inputs, *rule.outputs))
            sums = sum(split == PARTIAL for split in (*rule.inputs, *rule.outputs))
            return moved, sums, -splits if with_samples else splits, rule.inputs, rule.outputs

        rules = (
            AxisRule(
                inputs=tuple(placement[0] for placement in way.inputs),
                outputs=tuple(placement[0] for placement in way.outputs),
            )
            for way in self.table.strategies(operator, tensors, (self.axis_size,))
            if not way.exchanges or self.experts
        )
        if self.experts and operator.target.startswith(EXPERTS):
            every = list(rules)
            return min([rule for rule in every if set(rule.inputs) == {0}] or every, key=key)
        if len(self.lead) > 1 and ATTENTION in operator.target:
            every = list(rules)
            return min([rule for rule in every if rule.outputs[0] == ROWS] or every, key=key)
        return min(rules, key=key)


HEADS, ROWS = 1, 2
"""The dimensions of heads and of query positions in the results of attention, behind the samples."""
EXPERTS = "evenflow.experts"
"""The prefix of the names of operators of experts."""


def expert_parameters(graph: OperatorGraph, origins: "Origins") -> frozenset[int]:
    """Return the parameters that operators of experts read."""
    read = (
        origins.parameters.get(value.operator, frozenset())
        for operator in graph.operators
        if operator.target.startswith(EXPERTS)
        for value in operator.inputs
    )
    return frozenset().union(*read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """What each operator's result is made of: the batch, or parameters alone."""

    samples: frozenset[int]
    """Operators that see the batch, or the gradient of what was made of it."""
    parameters: Mapping[int, frozenset[int]]
    """The parameters behind an operator that sees no batch: casts and views of them."""


def origins_of(graph: OperatorGraph) -> Origins:
    """Tell which operators of a graph see the batch, and which only parameters."""
    samples: set[int] = set()
    parameters: dict[int, frozenset[int]] = {}
    for index, operator in enumerate(graph.operators):
        if operator.role in (Role.INPUT, Role.TANGENT) or any(value.operator in samples for value in operator.inputs):
            samples.add(index)
        elif operator.role is Role.PARAMETER:
            parameters[index] = frozenset({index})
        else:
            behind = frozenset().union(*(parameters.get(value.operator, frozenset()) for value in operator.inputs))
            if behind:
                parameters[index] = behind
    return Origins(samples=frozenset(samples), parameters=parameters)


def _moved_bytes(before: int, after: int, tensor: WholeTensor, axis_size: int, *, stays_whole: bool) -> float:
    """Return roughly the bytes a device sends to bring a tensor from one placement on an axis to another."""
    if before == after:
        return 0.0
    if before == REPLICATE:  # a device keeps its part of what it has
        return math.inf if stays_whole else 0.0
    if after == PARTIAL:
        return math.inf
    if before == PARTIAL:
        return (2.0 if after == REPLICATE else 1.0) * tensor.size_bytes
    return tensor.size_bytes * (1.0 if after == REPLICATE else 1.0 / axis_size)
