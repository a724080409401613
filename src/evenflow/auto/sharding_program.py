"""The operator sharding of a graph as a program with one choice a node and a cost for each pair along an edge.

    given tensor ---> operator ---> operator ---> …            every arrow: the cheapest collectives between the
                         |                                     placement that comes and the one that is needed;
    parameter ---------> operator ---> gradient                views on the way have no cost and no choice
        ^                                 |
        +----- update <----- sum <--------+                    once a step: synchronise, update, hand out

This is the program of Alpa (OSDI 2022, section 4.2, equation 1) with two differences: the cost of an edge is a function
of its two placements, so parameters, gradients and optimizer state are nodes like all others (which contains data
parallelism and the three stages of ZeRO), and equal layers share their variables.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from evenflow.auto.mesh import Mesh
from evenflow.auto.operator_costs import allowed_strategies, compute_ns
from evenflow.auto.operator_graph import Operator, OperatorGraph, Role, Value
from evenflow.auto.pairwise import Pairwise
from evenflow.auto.placement import Placement, Tensor, local_bytes, placements
from evenflow.auto.redistribution import Costs, RedistributionTable, Step
from evenflow.auto.strategies import Strategy, StrategyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the module is trained."""

    num_microbatches: int = 1
    """In one step; gradients are summed over them where they are, and synchronised once."""
    microbatches_in_flight: int = 1
    """Whose activations are kept at the same time: more than one in a pipeline."""
    optimizer_bytes_per_parameter: int = 8
    """State beside parameter and gradient: 8 for Adam in float32, 12 with a float32 copy of a 16-bit parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tensor on its way; `first` and `second` are nodes of the program."""

    first: int
    second: int
    output: int
    """Of the first node."""
    input: int
    """Of the second node."""
    tensor: Tensor
    views: tuple[int, ...]
    times: int
    """In one step."""
    gradient: bool = False
    """Once a step, between sum, update and parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A choice."""

    operator: int
    what: str
    """``operator``; ``copy``: its result in another placement, for several of those that read it; and for a parameter
    ``sum``: its summed gradient, or ``update``: where it is updated. ``result``: what leaves the graph."""
    strategies: tuple[Strategy, ...]
    times: int
    """In one step."""
    backward: bool
    """In the backward pass."""


@dataclass(kw_only=True)
class ShardingProgram:
    """The program and what its choices mean."""

    graph: OperatorGraph
    mesh: Mesh
    training: Training
    table: StrategyTable
    redistributions: RedistributionTable
    pairwise: Pairwise = field(default_factory=Pairwise)
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    compute: list[Costs] = field(default_factory=list)
    """What each choice of each node computes: its cost in the program without its edges."""
    node_of: dict[int, int] = field(default_factory=dict)
    """The node of an operator; views have none."""
    _view_costs: dict[Hashable, tuple[Costs, tuple[Placement, ...]]] = field(default_factory=dict)

    def path(self, edge: Edge, choices: tuple[int, ...]) -> tuple[Step, ...]:
        """The collectives that run on an edge."""
        source = self.nodes[edge.first].strategies[choices[edge.first]].outputs[edge.output]
        second = self.nodes[edge.second].strategies[choices[edge.second]]
        target = second.inputs[edge.input] if second.inputs else second.outputs[0]
        return self._path(edge.tensor, edge.views, source, target)

    def _path(self, tensor: Tensor, views: tuple[int, ...], source: Placement, target: Placement) -> tuple[Step, ...]:
        here = self.redistributions.of(tensor)
        if not views:
            return here.route(source, target)
        view = self.graph.operators[views[0]]
        rest, rest_states = self._costs(view.outputs[0], views[1:])
        column = rest_states.index(target)
        after = self.redistributions.of(view.outputs[0])
        best = min(
            self._view_strategies(views[0]),
            key=lambda one: (
                here.costs[here.index[source], here.index[one.inputs[0]]] + rest[after.index[one.outputs[0]], column]
            ),
        )
        behind = self._path(view.outputs[0], views[1:], best.outputs[0], target)
        return (*here.route(source, best.inputs[0]), *behind)

    def _view_strategies(self, view: int) -> tuple[Strategy, ...]:
        operator = self.graph.operators[view]
        return self.table.strategies(operator, _inputs(self.graph, operator), self.mesh.shape)

    def _costs(self, tensor: Tensor, views: tuple[int, ...]) -> tuple[Costs, tuple[Placement, ...]]:
        """From each placement of `tensor`, through `views`, to each placement of the last view's result.

        Collectives may run before, between and behind the views.
        """
        key = (tensor, tuple((self.graph.operators[view].call, self.graph.operators[view].outputs) for view in views))
        if key not in self._view_costs:
            self._view_costs[key] = self._through(tensor, views)
        return self._view_costs[key]

    def _through(self, tensor: Tensor, views: tuple[int, ...]) -> tuple[Costs, tuple[Placement, ...]]:
        here = self.redistributions.of(tensor)
        if not views:
            return here.costs, here.placements
        result = self.graph.operators[views[0]].outputs[0]
        after = self.redistributions.of(result)
        rest, states = self._costs(result, views[1:])
        through = np.full((len(here.placements), len(states)), np.inf)
        for strategy in self._view_strategies(views[0]):
            arrive = here.costs[:, here.index[strategy.inputs[0]]]
            leave = rest[after.index[strategy.outputs[0]]]
            through = np.minimum(through, arrive[:, None] + leave[None, :])
        return through, states


def build(graph: OperatorGraph, mesh: Mesh, training: Training, table: StrategyTable) -> ShardingProgram:
    """The program whose cost is the nanoseconds of one step and whose memory the bytes of one device."""
    program = ShardingProgram(
        graph=graph, mesh=mesh, training=training, table=table, redistributions=RedistributionTable(mesh=mesh)
    )
    for index, operator in enumerate(graph.operators):
        if operator.role is not Role.VIEW:
            _add_operator(program, index, operator)
    readers: _Readers = {}
    for index, operator in enumerate(graph.operators):
        if operator.role is Role.COMPUTE:
            for position, value in enumerate(operator.inputs):
                for route in graph.routes(value, operator.times):
                    reader = _Reader(node=program.node_of[index], input=position, views=route.views)
                    readers.setdefault((route.source, route.times, operator.backward), []).append(reader)
    for parameter, gradient in graph.gradients:
        _add_update(program, parameter, gradient, readers)
    for value in graph.outputs:
        _add_result(program, value, readers)
    for (source, times, backward), those in readers.items():
        _add_edges(program, source, times, those, backward=backward)
    return program


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """An input that a tensor reaches through views."""

    node: int
    input: int
    views: tuple[int, ...]


def _inputs(graph: OperatorGraph, operator: Operator) -> tuple[Tensor, ...]:
    return tuple(graph.operators[value.operator].outputs[value.output] for value in operator.inputs)


def _add_operator(program: ShardingProgram, index: int, operator: Operator) -> None:
    inputs = _inputs(program.graph, operator)
    mesh, training = program.mesh, program.training
    strategies = allowed_strategies(operator, program.table.strategies(operator, inputs, mesh.shape), mesh)
    times = operator.times * training.num_microbatches
    costs = [compute_ns(operator, inputs, one, mesh) * times for one in strategies]
    memory = [_kept_bytes(operator, one, program) for one in strategies]
    program.node_of[index] = _add_node(
        program, index, "operator", strategies, times=times, backward=operator.backward, costs=costs, memory=memory
    )


def _kept_bytes(operator: Operator, strategy: Strategy, program: ShardingProgram) -> int:
    """What one device keeps: parameters and buffers always, saved outputs for each microbatch in flight."""
    shape = program.mesh.shape
    if operator.role in (Role.PARAMETER, Role.BUFFER):
        return operator.times * local_bytes(operator.outputs[0], strategy.outputs[0], shape)
    saved = sum(local_bytes(operator.outputs[one], strategy.outputs[one], shape) for one in operator.saved)
    return operator.times * saved * program.training.microbatches_in_flight


def _add_node(
    program: ShardingProgram,
    operator: int,
    what: str,
    strategies: tuple[Strategy, ...],
    *,
    times: int,
    backward: bool,
    costs: list[int] | None = None,
    memory: list[int] | None = None,
) -> int:
    program.nodes.append(Node(operator=operator, what=what, strategies=strategies, times=times, backward=backward))
    nothing = [0] * len(strategies)
    program.compute.append(np.array(costs or nothing, dtype=np.float64))
    return program.pairwise.node(program.compute[-1], np.array(memory or nothing, dtype=np.float64))


def _add_edges(program: ShardingProgram, source: Value, times: int, readers: list[_Reader], *, backward: bool) -> None:
    """From a tensor to those that read it in the same pass. Several may share what a collective brings: a copy."""
    tensor = program.graph.operators[source.operator].outputs[source.output]
    first, output = program.node_of[source.operator], source.output
    times *= program.training.num_microbatches
    if len(readers) > 1:
        states = program.redistributions.of(tensor).placements
        same = tuple(Strategy(inputs=(one,), outputs=(one,)) for one in states)
        copy = _add_node(program, source.operator, "copy", same, times=times, backward=backward)
        _connect(program, Edge(first=first, second=copy, output=output, input=0, tensor=tensor, views=(), times=times))
        first, output = copy, 0
    for one in readers:
        edge = Edge(
            first=first, second=one.node, output=output, input=one.input, tensor=tensor, views=one.views, times=times
        )
        _connect(program, edge)


def _connect(program: ShardingProgram, edge: Edge) -> None:
    costs, states = program._costs(edge.tensor, edge.views)
    before = program.redistributions.of(edge.tensor)
    column_of = {state: i for i, state in enumerate(states)}
    first, second = program.nodes[edge.first], program.nodes[edge.second]
    rows = [before.index[one.outputs[edge.output]] for one in first.strategies]
    needed = [one.inputs[edge.input] if one.inputs else one.outputs[0] for one in second.strategies]
    columns = [column_of[one] for one in needed]
    program.edges.append(edge)
    program.pairwise.edge(edge.first, edge.second, costs[np.ix_(rows, columns)] * edge.times)


_Readers = dict[tuple[Value, int, bool], list[_Reader]]


def _add_result(program: ShardingProgram, value: Value, readers: _Readers) -> None:
    """What leaves the graph is no partial sum."""
    route = program.graph.routes(value, 1)[0]
    tensor = program.graph.operators[value.operator].outputs[value.output]
    states = tuple(placements(tensor, program.mesh.shape, partial=False))
    same = tuple(Strategy(inputs=(one,), outputs=(one,)) for one in states)
    backward = program.graph.operators[value.operator].backward
    node = _add_node(program, route.source.operator, "result", same, times=1, backward=backward)
    reader = _Reader(node=node, input=0, views=route.views)
    readers.setdefault((route.source, 1, backward), []).append(reader)


def _add_update(
    program: ShardingProgram,
    parameter: int,
    gradient: Value,
    readers: _Readers,
) -> None:
    """Gradients are summed over the microbatches as they come or reduced, then reduced to where the update happens,
    and the new parameters brought to where they are kept.
    """
    operator = program.graph.operators[parameter]
    tensor, shape = operator.outputs[0], program.mesh.shape
    kept = [(one, local_bytes(tensor, one, shape)) for one in placements(tensor, shape, partial=True)]
    sums = tuple(Strategy(inputs=(one,), outputs=(one,)) for one, _ in kept)
    memory = [operator.times * size for _, size in kept]
    times = operator.times
    sum_node = _add_node(program, parameter, "sum", sums, times=times, backward=True, memory=memory)
    for route in program.graph.routes(gradient, operator.times):
        reader = _Reader(node=sum_node, input=0, views=route.views)
        readers.setdefault((route.source, route.times, True), []).append(reader)

    updates = tuple(Strategy(inputs=(one,), outputs=(one,)) for one in placements(tensor, shape, partial=False))
    state = program.training.optimizer_bytes_per_parameter
    memory = [
        operator.times * state * (local_bytes(tensor, one.outputs[0], shape) // tensor.item_bytes) for one in updates
    ]
    update_node = _add_node(program, parameter, "update", updates, times=times, backward=True, memory=memory)
    for first, second in ((sum_node, update_node), (update_node, program.node_of[parameter])):
        edge = Edge(first=first, second=second, output=0, input=0, tensor=tensor, views=(), times=times, gradient=True)
        _connect(program, edge)
