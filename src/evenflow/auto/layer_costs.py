"""What runs of layers cost as pipeline stages on a mesh: for each kind of layer a few shardings, then sums.

A run of k equal layers costs ``base + k * slope`` in everything, because its layers share one choice (`OperatorGraph`);
a run of several kinds is the sum of its parts and of the redistributions between them. So a handful of programs, one
for each kind, mesh and memory level, gives the cost of every stage that a pipeline could have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from evenflow.auto.mesh import Mesh
from evenflow.auto.operator_graph import OperatorGraph, Role
from evenflow.auto.pairwise_milp import PairwiseSolution, least_memory, solve
from evenflow.auto.placement import Placement, Tensor
from evenflow.auto.redistribution import RedistributionTable
from evenflow.auto.sharding_builder import build
from evenflow.auto.sharding_plan import ShardingPlan
from evenflow.auto.sharding_program import ShardingProgram, Training
from evenflow.auto.sharding_report import chosen, describe_solution
from evenflow.auto.strategies import StrategyTable, torch_rules
from evenflow.errors import InputError

if TYPE_CHECKING:
    from torch import nn

_LEVELS = (1.0, 0.5, 0.25, 0.0)
"""Memory limits to solve for, between the least memory (0) and what the fastest sharding needs (1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Layers that are equal but for the values of their parameters."""

    name: str
    module: "nn.Module"
    example_input: Any
    """One microbatch for all devices of a stage together; the first tensor is what the layer before hands over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOption:
    """One way to run a stage; times of one microbatch, memory of one device."""

    forward_ns: int
    backward_ns: int
    update_ns: int
    """Once a step: gradients synchronised, parameters handed out."""
    static_bytes: int
    """Parameters, gradients and optimizer state."""
    activation_bytes: int
    """For each microbatch in flight."""
    sharding: str
    """``memory level 0`` is the fastest, higher ones need less memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """One sharding of one kind of layer: numbers of a run of k layers are ``base + k * slope``."""

    base: StageOption
    slope: StageOption
    entry: Placement
    """Of the tensor that comes in."""
    exit: Placement
    """Of the tensor that goes out."""
    gradient_entry: Placement | None
    """Of the gradient of what goes out, which comes in; None where there is none."""
    gradient_exit: Placement | None
    """Of the gradient of what came in."""
    plan: ShardingPlan
    """Of a stage of these layers alone, as many as the longest run has."""


@dataclass(frozen=True, kw_only=True)
class StageCosts:
    """Costs of all stages on one mesh. Holds numbers only, so other processes can be handed one."""

    mesh: Mesh
    order: tuple[int, ...]
    """The kind of every layer."""
    layers: tuple[tuple[LayerCost, ...], ...]
    """By kind, then by memory level; equally many for all kinds."""
    handed_over: tuple[Tensor, ...]
    """By kind: the tensor that comes in."""

    def options(self, first: int, end: int) -> tuple[StageOption, ...]:
        """The ways to run layers [first, end) as one stage, by memory level. Raises InputError for an empty run."""
        if not 0 <= first < end <= len(self.order):
            raise InputError(
                value=f"[{first}, {end})",
                rule=f"a stage is a run of some of the layers [0, {len(self.order)})",
                place="stage",
            )
        return tuple(self._option(first, end, level) for level in range(len(self.layers[0])))

    def entry(self, layer: int, level: int) -> tuple[Tensor, Placement]:
        """What comes into a layer, and how it lies on the mesh."""
        kind = self.order[layer]
        return self.handed_over[kind], self.layers[kind][level].entry

    def _option(self, first: int, end: int, level: int) -> StageOption:
        runs = [(self.layers[kind][level], len(list(run))) for kind, run in groupby(self.order[first:end])]
        numbers = [
            sum(getattr(cost.base, name) + count * getattr(cost.slope, name) for cost, count in runs)
            for name in _NUMBERS
        ]
        starts = [
            first + index
            for index in range(1, end - first)
            if self.order[first + index - 1] != self.order[first + index]
        ]
        table = RedistributionTable(mesh=self.mesh)
        for start in starts:
            forward, backward = self._between(start, level, table)
            numbers[0] += forward
            numbers[1] += backward
        return _option(numbers, level)

    def _between(self, start: int, level: int, table: RedistributionTable) -> tuple[int, int]:
        """Forward and backward, where the kind changes."""
        before, after = (self.layers[self.order[layer]][level] for layer in (start - 1, start))
        moves = table.of(self.handed_over[self.order[start]])

        def cost(source: Placement | None, target: Placement | None) -> int:
            if source is None or target is None:
                return 0
            return int(moves.costs[moves.index[source], moves.index[target]])

        return cost(before.exit, after.entry), cost(after.gradient_exit, before.gradient_entry)


_NUMBERS = ("forward_ns", "backward_ns", "update_ns", "static_bytes", "activation_bytes")


def stage_costs(
    kinds: Sequence[LayerKind],
    order: Sequence[int],
    meshes: Sequence[Mesh],
    *,
    training: Training | None = None,
    time_limit_s: float = 60.0,
) -> tuple[StageCosts, ...]:
    """Costs of every run of layers on each mesh; `order` is the kind of every layer.

    Every kind is traced once, and solved for each mesh and memory level within the time limit. Raises InputError where
    a kind cannot be traced, and where layers of a kind that follow one another do not take what they give.
    """
    table = StrategyTable(rules=torch_rules)
    training = training or Training()
    for kind in order:
        if not 0 <= kind < len(kinds):
            raise InputError(value=kind, rule=f"a layer's kind is one of 0 to {len(kinds) - 1}", place="order")
    longest = {
        kind: max((len(list(run)) for one, run in groupby(order) if one == kind), default=1)
        for kind in range(len(kinds))
    }
    graphs = [_capture(kind, longest[index]) for index, kind in enumerate(kinds)]
    _check_order(kinds, order, graphs)
    handed_over = tuple(_first_input(graph) for graph in graphs)
    return tuple(
        StageCosts(
            mesh=mesh,
            order=tuple(order),
            layers=tuple(
                tuple(_levels(graph, longest[index], mesh, table, training, time_limit_s))
                for index, graph in enumerate(graphs)
            ),
            handed_over=handed_over,
        )
        for mesh in meshes
    )


def _capture(kind: LayerKind, longest: int) -> OperatorGraph:
    from evenflow.auto.capture import capture
    from evenflow.auto.layer_stack import STACKED, differentiable, stack

    example = differentiable(kind.example_input)
    if longest == 1:
        return capture(kind.module, example)
    graph = capture(stack(kind.module), example)
    if not graph.from_layer_before:
        raise InputError(
            value=kind.name,
            rule="layers of one kind that follow one another take what the one before returns as their first argument",
            place="layer kind",
        )
    operators = tuple(replace(one, name=one.name.removeprefix(STACKED)) for one in graph.operators)
    return replace(graph, operators=operators)


def _check_order(kinds: Sequence[LayerKind], order: Sequence[int], graphs: Sequence[OperatorGraph]) -> None:
    for before, after in pairwise(order):
        value = graphs[before].outputs[0]
        given = graphs[before].operators[value.operator].outputs[value.output]
        taken = _first_input(graphs[after])
        if given != taken:
            raise InputError(
                value=f"{list(given.shape)} of {given.item_bytes} bytes each",
                rule=f"{kinds[after].name} takes {list(taken.shape)} of {taken.item_bytes} bytes each",
                place=f"what {kinds[before].name} returns",
            )


def _first_input(graph: OperatorGraph) -> Tensor:
    return next(one.outputs[0] for one in graph.operators if one.role is Role.INPUT)


def _levels(
    graph: OperatorGraph, longest: int, mesh: Mesh, table: StrategyTable, training: Training, time_limit_s: float
) -> Iterator[LayerCost]:
    """The shardings of one kind, from the fastest to that with the least memory."""
    program = build(graph.with_layers(longest), mesh, training, table)
    fastest = solve(program.pairwise, time_limit_s=time_limit_s)
    if not fastest.choices:
        raise InputError(
            value=time_limit_s,
            rule="a sharding of every kind of layer is found within the time limit",
            place="time_limit_s",
            remedy="allow more seconds",
        )
    most, least = program.pairwise.memory_of(fastest.choices), least_memory(program.pairwise, time_limit_s=time_limit_s)
    assert least is not None
    last = fastest
    for level in _LEVELS:
        if level < 1:
            limit = least + int(level * (most - least))
            found = solve(program.pairwise, memory_limit=limit, time_limit_s=time_limit_s)
            last = found if found.choices else last
        yield _layer_cost(graph, longest, program, last, mesh, table, training)


def _layer_cost(
    graph: OperatorGraph,
    longest: int,
    program: ShardingProgram,
    found: PairwiseSolution,
    mesh: Mesh,
    table: StrategyTable,
    training: Training,
) -> LayerCost:
    if longest == 1:
        base, slope = [0] * len(_NUMBERS), _numbers(program, found, training)
    else:
        two, three = (
            _numbers(build(graph.with_layers(count), mesh, training, table), found, training) for count in (2, 3)
        )
        slope = [b - a for a, b in zip(two, three, strict=True)]
        base = [a - 2 * s for a, s in zip(two, slope, strict=True)]
    inputs = [i for i, operator in enumerate(graph.operators) if operator.role is Role.INPUT]
    tangents = [i for i, operator in enumerate(graph.operators) if operator.role is Role.TANGENT]
    results = [
        (node.backward, node.strategies[choice].outputs[0])
        for node, choice in zip(program.nodes, found.choices, strict=True)
        if node.what == "result"
    ]
    leaving = [placement for backward, placement in results if backward]
    return LayerCost(
        base=_option(base, 0),
        slope=_option(slope, 0),
        entry=chosen(program, found.choices, inputs[0]).outputs[0],
        exit=next(placement for backward, placement in results if not backward),
        gradient_entry=chosen(program, found.choices, tangents[0]).outputs[0] if tangents else None,
        gradient_exit=leaving[0] if leaving else None,
        plan=describe_solution(program, found, memory_limit_bytes=None, smallest_memory_bytes=None, solve_seconds=0.0),
    )


def _numbers(program: ShardingProgram, found: PairwiseSolution, training: Training) -> list[int]:
    """In the order of `_NUMBERS`: what these choices cost in a program of the same graph."""
    plan = describe_solution(program, found, memory_limit_bytes=None, smallest_memory_bytes=None, solve_seconds=0.0)
    cost, memory = plan.cost, plan.memory
    assert cost is not None
    assert memory is not None
    return [
        cost.forward_ns // training.num_microbatches,
        cost.backward_ns // training.num_microbatches,
        cost.update_ns,
        memory.total_bytes - memory.activation_bytes,
        memory.activation_bytes // training.microbatches_in_flight,
    ]


def _option(numbers: Sequence[int], level: int) -> StageOption:
    values = dict(zip(_NUMBERS, numbers, strict=True))
    return StageOption(**values, sharding=f"memory level {level}")
