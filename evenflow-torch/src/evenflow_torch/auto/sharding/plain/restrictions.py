"""Plain plans as restrictions of the sharding program: the same costs and memory, with fewer choices at each node.

    data axis      activations split by samples, parameters read whole; what is kept of their state is the stage of ZeRO
    replica axis   likewise, with nothing of the state shared out
    context axis   likewise with positions instead of samples; attention gathers keys and values, or has other heads on
                   every device [Ulysses, arXiv:2309.14509], whichever is cheaper
    expert axis    as data, but experts are split by expert where they are kept and used; tokens go to them all-to-all
    tensor axis    matrices split where they are kept and used, never gathered; activations whole or split, whichever is
                   cheaper, but not by samples

So a plain plan is never priced worse than what a framework would run, and none undercuts the free program.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.cluster import PARTIAL, REPLICATE, Mesh, Placement
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy
from evenflow_torch.auto.sharding.plain.sample_splits import (
    EXPERTS,
    HEADS,
    ROWS,
    Origins,
    SampleSplits,
    expert_parameters,
    origins_of,
    sample_splits,
)
from evenflow_torch.auto.sharding.program import Edge, Node, NodeKind, ShardingProgram
from evenflow_torch.auto.sharding.ways import SHARING, AxisRole, PlainWay
from evenflow_torch.models.trace.operator_graph import ATTENTION, Operator, Role

_WITH_SAMPLES = (AxisRole.DATA, AxisRole.REPLICA, AxisRole.EXPERT)
Kept = tuple[NDArray[np.intp], ...]
"""The choices that are left at every node of a program."""
_Mask = NDArray[np.bool_]
"""Which choices of a node are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """A plain plan of all kinds of layers on one mesh, or the reason why there is none."""

    way: PlainWay
    kept: tuple[Kept, ...]
    """The choices left in the program of each kind; empty where the way does not exist."""
    reason: str = ""
    """One sentence for tables: what does not divide."""


def plain_ways(mesh: Mesh, *, has_experts: bool = False, has_attention: bool = False) -> tuple[PlainWay, ...]:
    """Return the plain plans for which a logical mesh is the natural one; experts and attention allow some more.

    Two axes are one of data and one of tensor parallelism. Between nodes the outer axis is no tensor axis, and both may
    be data; axes on equal links are one axis of another mesh then. Of three the last is one of tensor parallelism.
    """
    roles: list[tuple[AxisRole, ...]] = []
    if len(mesh.axes) == 1:
        axis = mesh.axes[0]
        roles.append((AxisRole.DATA,))
        if axis.size > 1 and axis.domains == 1:
            roles.append((AxisRole.TENSOR,))
    elif len(mesh.axes) == 2:
        outer, inner = mesh.axes
        roles.append((AxisRole.DATA, AxisRole.TENSOR))
        roles += [(AxisRole.CONTEXT, AxisRole.TENSOR)] * has_attention
        if outer.domains == outer.size > 1:
            roles += [(AxisRole.DATA, AxisRole.DATA), (AxisRole.REPLICA, AxisRole.DATA)]
        elif outer.domains == 1 and outer.size != inner.size:
            roles.append((AxisRole.TENSOR, AxisRole.DATA))
    else:
        roles.append((AxisRole.REPLICA, AxisRole.DATA, AxisRole.TENSOR))
        roles += [(AxisRole.DATA, AxisRole.CONTEXT, AxisRole.TENSOR)] * has_attention
        roles += [(AxisRole.DATA, AxisRole.EXPERT, AxisRole.TENSOR)] * has_experts
    if mesh.axes[-1].size > 1:
        others = tuple(AxisRole.DATA for _ in mesh.axes[1:])
        roles += [(*others, AxisRole.EXPERT)] * has_experts + [(*others, AxisRole.CONTEXT)] * has_attention
    return tuple(PlainWay(axis_roles, sharding) for axis_roles in roles for sharding in _shardings(axis_roles, mesh))


def _shardings(roles: tuple[AxisRole, ...], mesh: Mesh) -> tuple[Sharding, ...]:
    """Return the ZeRO stages that make a difference for these roles; unshared hybrid sharding is data parallelism."""
    shared = math.prod(axis.size for axis, role in zip(mesh.axes, roles, strict=True) if role in SHARING)
    if shared == 1:
        return (Sharding.NOTHING,)
    return tuple(Sharding)[1:] if AxisRole.REPLICA in roles else tuple(Sharding)


def restrictions(
    programs: Sequence[ShardingProgram], ways: Sequence[PlainWay], deadline: Deadline
) -> Iterator[Restriction]:
    """Yield the choices that each way leaves in the programs of all kinds of layers on one mesh."""
    facts = [_Facts(program) for program in programs]
    for way in ways:
        if deadline.is_over:
            yield Restriction(way=way, kept=(), reason=_("no time was left to shard its operators"))
            continue
        reason = next((reason for program_facts in facts if (reason := _obstacle(program_facts, way))), "")
        if (
            not reason
            and AxisRole.TENSOR in way.roles
            and not any(program_facts.matrices(way) for program_facts in facts)
        ):
            reason = _("no matrix divides over {devices}", devices=_size(programs[0].mesh, way, (AxisRole.TENSOR,)))
        kept = () if reason else tuple(_kept(program_facts, way) for program_facts in facts)
        yield Restriction(way=way, kept=kept, reason=reason)


def _size(mesh: Mesh, way: PlainWay, roles: tuple[AxisRole, ...]) -> int:
    return math.prod(axis.size for axis, role in zip(mesh.axes, way.roles, strict=True) if role in roles)


def _obstacle(facts: "_Facts", way: PlainWay) -> str:
    """Return why a program cannot be sharded in a way, or "" if it can."""
    program = facts.program
    parts, (samples, *more) = _size(program.mesh, way, _WITH_SAMPLES), facts.entry.outputs[0].shape
    if samples % parts:
        return _("{samples} samples do not divide over {devices}", samples=samples, devices=parts)
    context = _size(program.mesh, way, (AxisRole.CONTEXT,))
    if context > 1 and (not more or more[0] % context):
        return _("{positions} positions do not divide over {devices}", positions=(more or [1])[0], devices=context)
    tensor = _size(program.mesh, way, (AxisRole.TENSOR,))
    experts = _size(program.mesh, way, (AxisRole.EXPERT,))
    for count in sorted({program.graph.operators[parameter].outputs[0].shape[0] for parameter in facts.experts}):
        if count % experts:
            return _("{count} experts do not divide over {devices}", count=count, devices=experts)
    for operator in program.graph.operators:
        is_attention = ATTENTION in operator.target and not operator.backward
        if is_attention and operator.outputs[0].shape[1] % tensor:
            heads = operator.outputs[0].shape[1]
            return _("{heads} heads do not divide over {devices}", heads=heads, devices=tensor)
    return ""


class _Facts:
    """What all restrictions of one program need to know about it, worked out once."""

    def __init__(self, program: ShardingProgram) -> None:
        self.program = program
        self.graph = program.graph
        self._splits: dict[tuple[int, int, bool], SampleSplits] = {}
        self._codes: dict[tuple[int, int], _Codes] = {}

    @cached_property
    def entry(self) -> Operator:
        return next(operator for operator in self.graph.operators if operator.role is Role.INPUT)

    @cached_property
    def origins(self) -> Origins:
        return origins_of(self.graph)

    @cached_property
    def incoming(self) -> Mapping[int, Edge]:
        """The first edge into each node; for one that is no operator, it tells where the tensor comes from."""
        incoming: dict[int, Edge] = {}
        for edge in self.program.edges:
            incoming.setdefault(edge.second, edge)
        return incoming

    @cached_property
    def experts(self) -> frozenset[int]:
        """The parameters that operators of experts read."""
        return expert_parameters(self.graph, self.origins)

    def splits(self, axis: int, role: AxisRole) -> SampleSplits:
        """Return how samples, or on a context axis positions, are split on an axis through the whole graph."""
        dimension = 1 if role is AxisRole.CONTEXT else 0
        key = self.program.mesh.shape[axis], dimension, role is AxisRole.EXPERT and bool(self.experts)
        if key not in self._splits:
            self._splits[key] = sample_splits(
                self.graph, self.program.table, key[0], dimension=dimension, by_expert=key[2]
            )
        return self._splits[key]

    def codes(self, node: int, axis: int) -> "_Codes":
        """Return how each choice of a node places its tensors on one axis."""
        if (node, axis) not in self._codes:
            self._codes[node, axis] = _Codes.of(self.program.nodes[node].strategies, axis)
        return self._codes[node, axis]

    def is_matrix(self, parameter: int) -> bool:
        """Tell whether a parameter has two dimensions that could be split."""
        return sum(size > 1 for size in self.graph.operators[parameter].outputs[0].shape) > 1

    def divides(self, parameter: int, devices: int) -> bool:
        """Tell whether some dimension of a parameter divides over `devices`."""
        return any(size % devices == 0 for size in self.graph.operators[parameter].outputs[0].shape)

    def matrices(self, way: PlainWay) -> bool:
        """Tell whether some matrix divides over the devices of the tensor axes."""
        devices = _size(self.program.mesh, way, (AxisRole.TENSOR,))
        return any(
            operator.role is Role.PARAMETER and self.is_matrix(index) and self.divides(index, devices)
            for index, operator in enumerate(self.graph.operators)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Codes:
    """How each choice of a node places its inputs and outputs on one axis; a row for each choice."""

    inputs: NDArray[np.intp]
    outputs: NDArray[np.intp]
    has_exchanges: _Mask

    @classmethod
    def of(cls, strategies: tuple[OperatorStrategy, ...], axis: int) -> "_Codes":
        def on_axis(placed: Iterable[tuple[Placement, ...]]) -> NDArray[np.intp]:
            codes = [[placement[axis] for placement in placements] for placements in placed]
            return np.array(codes, dtype=np.intp).reshape(len(strategies), -1)

        return cls(
            on_axis(strategy.inputs for strategy in strategies),
            on_axis(strategy.outputs for strategy in strategies),
            np.array([any(on == axis for on, _exchange in strategy.exchanges) for strategy in strategies]),
        )


def _kept(facts: _Facts, way: PlainWay) -> Kept:
    """Return the choices that a way leaves at every node."""
    return tuple(_choices(facts, way, index, node) for index, node in enumerate(facts.program.nodes))


def _choices(facts: _Facts, way: PlainWay, index: int, node: Node) -> NDArray[np.intp]:
    """Return the choices left at a node: those allowed on all axes; an axis that would leave none is ignored."""
    allowed = np.ones(len(node.strategies), dtype=np.bool_)
    is_state = node.kind in (NodeKind.SUM, NodeKind.UPDATE)
    is_parameter = facts.graph.operators[node.operator].role is Role.PARAMETER and node.kind is NodeKind.OPERATOR
    for axis, role in enumerate(way.roles):
        if facts.program.mesh.shape[axis] == 1:
            continue
        if is_state or is_parameter:
            on_axis = _state(facts, way, index, node, axis)
        elif role is AxisRole.TENSOR:
            on_axis = _beside_products(facts, index, node, axis)
        else:
            on_axis = _by_samples(facts, index, node, axis, role)
        if (allowed & on_axis).any():
            allowed &= on_axis
    if (is_state or is_parameter) and _is_shared(way.sharding, node.kind):
        allowed = _most_shared(facts, way, index, allowed)
    return np.flatnonzero(allowed)


def _is_shared(sharding: Sharding, kind: NodeKind) -> bool:
    """Tell whether a ZeRO stage shares out what a node stands for: parameter, summed gradient or update."""
    stages = tuple(Sharding)
    first = {NodeKind.SUM: Sharding.GRADIENTS, NodeKind.UPDATE: Sharding.OPTIMIZER}.get(kind, Sharding.PARAMETERS)
    return stages.index(sharding) >= stages.index(first)


def _state(facts: _Facts, way: PlainWay, index: int, node: Node, axis: int) -> _Mask:
    """Mark the allowed choices of a parameter, its gradient's sum or its update on an axis."""
    codes = facts.codes(index, axis).outputs[:, 0]
    role = way.roles[axis]
    if role is AxisRole.TENSOR:
        devices = facts.program.mesh.shape[axis]
        is_split = facts.is_matrix(node.operator) and facts.divides(node.operator, devices)
        return codes >= 0 if is_split else np.ones(len(codes), dtype=np.bool_)
    if role is AxisRole.EXPERT and node.operator in facts.experts:
        return np.equal(codes, 0)
    if role in SHARING and _is_shared(way.sharding, node.kind):
        return np.ones(len(codes), dtype=np.bool_)
    return np.equal(codes, PARTIAL if node.kind is NodeKind.SUM else REPLICATE)


def _most_shared(facts: _Facts, way: PlainWay, index: int, allowed: _Mask) -> _Mask:
    """Keep those allowed choices that share a parameter's state out over the most devices."""
    parts = np.ones(len(allowed), dtype=np.intp)
    for axis, role in enumerate(way.roles):
        if role in SHARING:
            parts *= np.where(facts.codes(index, axis).outputs[:, 0] >= 0, facts.program.mesh.shape[axis], 1)
    most: _Mask = parts == parts[allowed].max(initial=1)
    return allowed & most


def _by_samples(facts: _Facts, index: int, node: Node, axis: int, role: AxisRole) -> _Mask:
    """Mark the allowed choices of an operator, copy or result on an axis of data, experts or context."""
    codes, splits = facts.codes(index, axis), facts.splits(axis, role)
    if node.kind is NodeKind.OPERATOR:
        rule, target = splits.rules[node.operator], facts.graph.operators[node.operator].target
        if role is AxisRole.CONTEXT and ATTENTION in target:
            within: _Mask = np.isin(codes.outputs[:, 0], (HEADS, ROWS))
            return within
        is_free = role is AxisRole.EXPERT and target.startswith(EXPERTS)
        same: _Mask = np.ones_like(codes.has_exchanges) if is_free else ~codes.has_exchanges
        if rule.inputs and codes.inputs.size:
            same &= np.equal(codes.inputs, rule.inputs).all(axis=1)
        same &= np.equal(codes.outputs, rule.outputs).all(axis=1)
        return same
    edge = facts.incoming[index]
    if edge.views:
        lies = splits.rules[edge.views[-1]].outputs[0]
    elif node.operator in facts.origins.parameters:
        lies = splits.rules[node.operator].outputs[0] if node.operator in facts.experts else REPLICATE  # gathered once
    else:
        lies = splits.rules[node.operator].outputs[edge.output]
    outputs = codes.outputs[:, 0]
    return outputs == lies if lies != PARTIAL else np.ones(len(outputs), dtype=np.bool_)


def _beside_products(facts: _Facts, index: int, node: Node, axis: int) -> _Mask:
    """Mark the allowed choices on a tensor axis: matrices stay split; copies and results not split by samples."""
    codes = facts.codes(index, axis)
    if node.kind is not NodeKind.OPERATOR or facts.graph.operators[node.operator].role is not Role.COMPUTE:
        by_features: _Mask = codes.outputs[:, 0] != 0
        return by_features if node.kind is not NodeKind.COPY else np.ones_like(by_features)
    allowed = ~codes.has_exchanges
    devices = facts.program.mesh.shape[axis]
    split = allowed.copy()
    for place, value in enumerate(facts.graph.operators[node.operator].inputs):
        behind = facts.origins.parameters.get(value.operator, frozenset())
        if len(behind) == 1 and facts.is_matrix(parameter := next(iter(behind))) and facts.divides(parameter, devices):
            split &= codes.inputs[:, place] >= 0
    return split if split.any() else allowed
