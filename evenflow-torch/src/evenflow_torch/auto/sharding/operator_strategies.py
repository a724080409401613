"""Every way to run an operator on a mesh: the products of its rules on the axes that split all tensors evenly.

Rules come from DTensor's registries and those of `rules`; an operator that neither knows runs replicated.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from evenflow.cluster import (
    REPLICATE,
    Mesh,
    MeshAxis,
    Placement,
    RowExchange,
    WholeTensor,
    blocks_of,
    digits,
    dimension_of,
    is_offered,
    placement_of,
    placements,
    split_along,
)
from evenflow.cluster.splits.split_digits import through_view
from evenflow.cluster.splits.view_groups import DimensionGroups
from evenflow_torch.auto.sharding.redistribution import RedistributionTable
from evenflow_torch.auto.sharding.strided_splits import is_uniform, with_blocks
from evenflow_torch.models.trace.operator_graph import AxisRule, InnerExchange, Operator, OperatorGraph, Role

AxisRules = Callable[[Hashable, int], frozenset[AxisRule] | None]
"""A function from a call and the devices of an axis to the rules of an operator; None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStrategy:
    """A placement on the whole mesh for each tensor in and out of an operator."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    exchanges: tuple[tuple[int, InnerExchange], ...] = ()
    """Collectives of its own, each with the mesh axis that it runs on."""
    load: float = 1.0
    """What the fullest device keeps, as a multiple of an equal share."""
    work: float = 1.0
    """What the busiest device computes, as a multiple of an equal share."""
    rows: RowExchange = RowExchange.GATHERED
    """How attention by rows of the query gets keys and values."""


def torch_rules(call: Hashable, axis_size: int, *, expert_capacity: float | None = None) -> frozenset[AxisRule] | None:
    """Return the sharding rules of a captured call, from torch or our own; None if there are none."""
    from evenflow_torch.auto.sharding.rules.extra_rules import extra_rules
    from evenflow_torch.models.trace.dtensor_adapter import Call, NoRuleError, registered_rules

    assert isinstance(call, Call)
    rules = extra_rules(call, expert_capacity=expert_capacity)
    if rules is None:
        try:
            rules = registered_rules(call, axis_size)
        except NoRuleError:
            return None
    return frozenset(rules)


@dataclass(kw_only=True)
class StrategyTable:
    """Strategies of operators, derived once for equal calls; one table may serve many meshes and modules."""

    rules: AxisRules
    unknown: set[str] = field(default_factory=set)
    """Operators without rules, by name: they run replicated."""
    _redistributions: dict[tuple[MeshAxis, ...], RedistributionTable] = field(default_factory=dict)
    _rules: dict[tuple[Hashable, int], tuple[AxisRule, ...]] = field(default_factory=dict)
    _strategies: dict[object, tuple[OperatorStrategy, ...]] = field(default_factory=dict)

    def with_strided_splits(self, graph: OperatorGraph, axis_size: int) -> OperatorGraph:
        """Return the graph with the strided splits that its views could use."""
        return with_blocks(graph, lambda operator: self.axis_rules(operator, len(operator.inputs), axis_size))

    def redistributions(self, mesh: Mesh) -> RedistributionTable:
        """Return the costs of moving tensors between placements on a mesh, which all its programs share."""
        return self._redistributions.setdefault(mesh.axes, RedistributionTable(mesh=mesh))

    def strategies(
        self, operator: Operator, inputs: tuple[WholeTensor, ...], mesh_shape: tuple[int, ...]
    ) -> tuple[OperatorStrategy, ...]:
        """Return an operator's strategies for the tensors `inputs`, in a fixed order, the replicated one first."""
        if operator.view is not None:
            seen = (operator.view, inputs, operator.outputs, mesh_shape)
            if seen not in self._strategies:
                self._strategies[seen] = _of_view(operator.view, inputs[0], operator.outputs[0], mesh_shape)
            return self._strategies[seen]
        if operator.role not in (Role.COMPUTE, Role.VIEW):
            tensor = operator.outputs[0]
            return tuple(
                OperatorStrategy(inputs=(), outputs=(placement,))
                for placement in placements(tensor, mesh_shape, partial=False)
            )
        key = (operator.call, inputs, operator.outputs, mesh_shape)
        if key not in self._strategies:
            self._strategies[key] = self._products(operator, inputs, mesh_shape)
        return self._strategies[key]

    def _products(
        self, operator: Operator, inputs: tuple[WholeTensor, ...], mesh_shape: tuple[int, ...]
    ) -> tuple[OperatorStrategy, ...]:
        tensors = (*inputs, *operator.outputs)
        axes = [
            [
                offered
                for rule in self.axis_rules(operator, len(inputs), size)
                for offered in (rule, *_strided(rule, tensors))
            ]
            for size in mesh_shape
        ]
        strategies = []
        for rules in itertools.product(*axes):
            ins = tuple(zip(*(rule.inputs for rule in rules), strict=True)) if inputs else ()
            outs = tuple(zip(*(rule.outputs for rule in rules), strict=True))
            placed = tuple(zip(tensors, (*ins, *outs), strict=True))
            if all(is_offered(*pair, mesh_shape) for pair in placed) and _fit(rules, tensors) and _rows_fit(rules):
                exchanges = tuple((axis, exchange) for axis, rule in enumerate(rules) for exchange in rule.exchanges)
                load = max((rule.load for rule in rules), default=1.0)
                work = max((rule.work for rule in rules), default=1.0)
                rows = next(
                    (rule.rows for rule in rules if rule.rows is not RowExchange.GATHERED), RowExchange.GATHERED
                )
                strategies.append(
                    OperatorStrategy(inputs=ins, outputs=outs, exchanges=exchanges, load=load, work=work, rows=rows)
                )
        return tuple(strategies)

    def axis_rules(self, operator: Operator, num_inputs: int, axis_size: int) -> tuple[AxisRule, ...]:
        """Return the rules of an operator on one axis with ordinary splits, the replicated one first."""
        replicated = AxisRule(inputs=(REPLICATE,) * num_inputs, outputs=(REPLICATE,) * len(operator.outputs))
        if axis_size == 1 or not num_inputs:  # what is made from nothing, a mask or positions, every device makes
            return (replicated,)
        key = (operator.call, axis_size)
        if key not in self._rules:
            rules = self.rules(operator.call, axis_size)
            if rules is None:
                self.unknown.add(operator.target)
            others = sorted(
                set(rules or ()) - {replicated},
                key=lambda rule: (rule.inputs, rule.outputs, rule.exchanges, rule.load, rule.work, rule.rows),
            )
            self._rules[key] = (replicated, *others)
        return self._rules[key]


def _of_view(
    view: DimensionGroups, source: WholeTensor, result: WholeTensor, mesh_shape: tuple[int, ...]
) -> tuple[OperatorStrategy, ...]:
    """Return a view's strategies: the input placements whose parts can be viewed alone, with their results."""
    strategies = []
    for placement in placements(source, mesh_shape, partial=True):
        before = digits(source.shape, placement, mesh_shape)
        assert before is not None
        after = through_view(before, view, result.shape)
        if after is not None and is_offered(result, seen := placement_of(after, placement), mesh_shape):
            strategies.append(OperatorStrategy(inputs=(placement,), outputs=(seen,)))
    return tuple(strategies)


def _strided(rule: AxisRule, tensors: tuple[WholeTensor, ...]) -> Iterator[AxisRule]:
    """Yield the strided variants of a rule: one for each number of blocks that all its split dimensions have."""
    if not is_uniform(rule, tensors):
        return
    placed = zip(tensors, (*rule.inputs, *rule.outputs), strict=True)
    common = set.intersection(
        *(set(tensor.blocks[split] if tensor.blocks else ()) for tensor, split in placed if split >= 0)
    )
    for blocks in sorted(common):
        inputs, outputs = (
            tuple(split if split < 0 else split_along(split, blocks) for split in side)
            for side in (rule.inputs, rule.outputs)
        )
        yield replace(rule, inputs=inputs, outputs=outputs)


def _rows_fit(rules: tuple[AxisRule, ...]) -> bool:
    """Tell whether attention with balanced or ring-exchanged rows is split by rows along one axis only."""
    special = [rule for rule in rules if rule.rows is not RowExchange.GATHERED]
    return not special or sum(rule.outputs[0] == special[0].outputs[0] for rule in rules) == 1


def _fit(rules: tuple[AxisRule, ...], tensors: tuple[WholeTensor, ...]) -> bool:
    """Tell whether rules of several axes fit together: what one splits in blocks, the others split uniformly."""
    strided = {
        (at, dimension_of(split))
        for rule in rules
        for at, split in enumerate((*rule.inputs, *rule.outputs))
        if split >= 0 and blocks_of(split) > 1
    }
    return not strided or all(
        is_uniform(rule, tensors)
        or strided.isdisjoint(
            (at, dimension_of(split)) for at, split in enumerate((*rule.inputs, *rule.outputs)) if split >= 0
        )
        for rule in rules
    )
