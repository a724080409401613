"""Every way to run an operator on a mesh: the products of its rules on the axes that split all tensors evenly.

Rules come from DTensor's registries and the few in `extra_rules`; an operator that neither knows runs replicated.
"""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from evenflow.auto.trace.operator_graph import AxisRule, InnerExchange, Operator, Role
from evenflow.cluster import REPLICATE, Placement, WholeTensor, is_even, placements

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
    """How many times an equal share of what is kept the fullest device has."""


def torch_rules(call: Hashable, axis_size: int) -> frozenset[AxisRule] | None:
    """Return the rules of a captured call, from torch; None where there are none."""
    from evenflow.auto.sharding.extra_rules import extra_rules
    from evenflow.auto.trace.dtensor_adapter import Call, NoRuleError, registered_rules

    assert isinstance(call, Call)
    rules = extra_rules(call)
    if rules is None:
        try:
            rules = registered_rules(call, axis_size)
        except NoRuleError:
            return None
    return frozenset(rules)


@dataclass(kw_only=True)
class StrategyTable:
    """Strategies of operators, found once for equal calls. One table may serve many meshes and modules."""

    rules: AxisRules
    unknown: set[str] = field(default_factory=set)
    """Operators without rules, by name: they run replicated."""
    _rules: dict[tuple[Hashable, int], tuple[AxisRule, ...]] = field(default_factory=dict)
    _strategies: dict[object, tuple[OperatorStrategy, ...]] = field(default_factory=dict)

    def strategies(
        self, operator: Operator, inputs: tuple[WholeTensor, ...], mesh_shape: tuple[int, ...]
    ) -> tuple[OperatorStrategy, ...]:
        """Return those of an operator whose input tensors are `inputs`, in a fixed order, the replicated one first."""
        if operator.role is Role.VIEW and operator.call is None:
            identity = placements(operator.outputs[0], mesh_shape, partial=True)
            return tuple(OperatorStrategy(inputs=(one,), outputs=(one,)) for one in identity)
        if operator.role not in (Role.COMPUTE, Role.VIEW):
            tensor = operator.outputs[0]
            return tuple(
                OperatorStrategy(inputs=(), outputs=(one,)) for one in placements(tensor, mesh_shape, partial=False)
            )
        key = (operator.call, inputs, operator.outputs, mesh_shape)
        if key not in self._strategies:
            self._strategies[key] = self._products(operator, inputs, mesh_shape)
        return self._strategies[key]

    def _products(
        self, operator: Operator, inputs: tuple[WholeTensor, ...], mesh_shape: tuple[int, ...]
    ) -> tuple[OperatorStrategy, ...]:
        axes = [self._axis_rules(operator, len(inputs), size) for size in mesh_shape]
        found = []
        for rules in itertools.product(*axes):
            ins = tuple(zip(*(rule.inputs for rule in rules), strict=True)) if inputs else ()
            outs = tuple(zip(*(rule.outputs for rule in rules), strict=True))
            pairs = (*zip(inputs, ins, strict=True), *zip(operator.outputs, outs, strict=True))
            if all(is_even(tensor, placement, mesh_shape) for tensor, placement in pairs):
                exchanges = tuple((axis, one) for axis, rule in enumerate(rules) for one in rule.exchanges)
                load = max((rule.load for rule in rules), default=1.0)
                found.append(OperatorStrategy(inputs=ins, outputs=outs, exchanges=exchanges, load=load))
        return tuple(found)

    def _axis_rules(self, operator: Operator, num_inputs: int, axis_size: int) -> tuple[AxisRule, ...]:
        replicated = AxisRule(inputs=(REPLICATE,) * num_inputs, outputs=(REPLICATE,) * len(operator.outputs))
        if axis_size == 1 or not num_inputs:  # what is made from nothing, a mask or positions, every device makes
            return (replicated,)
        key = (operator.call, axis_size)
        if key not in self._rules:
            rules = self.rules(operator.call, axis_size)
            if rules is None:
                self.unknown.add(operator.target)
            others = sorted(
                set(rules or ()) - {replicated}, key=lambda rule: (rule.inputs, rule.outputs, rule.exchanges, rule.load)
            )
            self._rules[key] = (replicated, *others)
        return self._rules[key]
