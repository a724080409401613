"""Builds the sharding program of a graph, node by node and edge by edge."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from evenflow.cluster import Mesh, Placement, local_bytes, placements
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy, StrategyTable
from evenflow_torch.auto.sharding.operator_time import (
    addition_ns,
    allowed_strategies,
    busy_ns,
    compute_ns,
    inner_times,
    update_ns,
)
from evenflow_torch.auto.sharding.overlap import Purpose
from evenflow_torch.auto.sharding.program import Edge, ModuleTraining, Node, NodeKind, Runs, ShardingProgram
from evenflow_torch.models.trace.operator_graph import Operator, OperatorGraph, Role, Route, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """An input of a node, with the views through which a tensor reaches it."""

    node: int
    input: int
    views: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Readers of a tensor that may share a moved copy of it: they run equally often and in the same pass."""

    source: Value
    times: int
    from_layer_before: bool
    backward: bool

    @property
    def runs(self) -> Runs:
        """How often the readers run in a pass through equal layers."""
        return Runs.BETWEEN_LAYERS if self.from_layer_before else _runs(self.times)

    @staticmethod
    def of(route: Route, *, backward: bool) -> "_Group":
        return _Group(
            source=route.source, times=route.times, from_layer_before=route.from_layer_before, backward=backward
        )


_Readers = dict[_Group, list[_Reader]]


def _runs(times: int) -> Runs:
    """Return how an operator with `times` runs in a pass is counted: several mean one in each equal layer."""
    return Runs.EACH_LAYER if times > 1 else Runs.ONCE


def build(graph: OperatorGraph, mesh: Mesh, training: ModuleTraining, table: StrategyTable) -> ShardingProgram:
    """Build the program whose cost is the nanoseconds of one step and whose memory the bytes of one device."""
    graph = table.with_strided_splits(graph, max(mesh.shape))
    program = ShardingProgram(
        graph=graph, mesh=mesh, training=training, table=table, redistributions=table.redistributions(mesh)
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
                    readers.setdefault(_Group.of(route, backward=operator.backward), []).append(reader)
    for parameter, gradient in graph.gradients:
        _add_update(program, parameter, gradient, readers)
    for value in graph.outputs:
        _add_result(program, value, readers)
    for group, those in readers.items():
        _add_edges(program, group, those)
    return program


def _add_operator(program: ShardingProgram, index: int, operator: Operator) -> None:
    inputs = program.graph.inputs(operator)
    mesh, training = program.mesh, program.training
    strategies = allowed_strategies(operator, program.table.strategies(operator, inputs, mesh.shape), mesh)
    if operator.kept_split is not None and mesh.num_devices > 1:
        strategies = tuple(strategy for strategy in strategies if operator.keeps(strategy.outputs[0]))
    times = operator.times * training.num_microbatches
    costs = [compute_ns(operator, inputs, strategy, mesh) * times for strategy in strategies]
    inner = [inner_times(operator, inputs, strategy, mesh) for strategy in strategies]
    memory = [_kept_bytes(operator, strategy, program) for strategy in strategies]
    node = Node(
        operator=index,
        kind=NodeKind.OPERATOR,
        strategies=strategies,
        times=times,
        runs=_runs(operator.times),
        backward=operator.backward,
    )
    program.node_of[index] = program.add_node(
        node,
        costs=costs,
        exchanged=[sum(exchange.exposed_ns for exchange in exchanges) * times for exchanges in inner],
        busy=[busy_ns(exchanges) * times for exchanges in inner],
        memory=memory,
    )


def _kept_bytes(operator: Operator, strategy: OperatorStrategy, program: ShardingProgram) -> int:
    """Return the bytes that one device keeps: parameters and buffers always, saved outputs per microbatch in flight."""
    shape = program.mesh.shape
    if operator.role in (Role.PARAMETER, Role.BUFFER):
        return operator.times * local_bytes(operator.outputs[0], strategy.outputs[0], shape)
    saved = sum(local_bytes(operator.outputs[output], strategy.outputs[output], shape) for output in operator.saved)
    return round(operator.times * saved * strategy.load) * program.training.microbatches_in_flight


def _add_edges(program: ShardingProgram, group: _Group, readers: list[_Reader]) -> None:
    """Add edges from a tensor to its readers in the same pass. Several may share what a collective brings: a copy."""
    source = group.source
    tensor = program.graph.operators[source.operator].outputs[source.output]
    first, output = program.node_of[source.operator], source.output
    times = group.times * program.training.num_microbatches
    edge = partial(Edge, tensor=tensor, times=times, runs=group.runs)
    if len(readers) > 1:
        copy = program.add_node(
            Node(
                operator=source.operator,
                kind=NodeKind.COPY,
                strategies=_unchanged(program.redistributions.of(tensor).placements),
                times=times,
                runs=group.runs,
                backward=group.backward,
            )
        )
        every = {_purpose(program, source, reader) for reader in readers}
        purpose = every.pop() if len(every) == 1 else Purpose.OTHER
        program.connect(edge(first=first, second=copy, output=output, purpose=purpose))
        first, output = copy, 0
    for reader in readers:
        to_reader = partial(edge, second=reader.node, input=reader.input, views=reader.views)
        program.connect(to_reader(first=first, output=output, purpose=_purpose(program, source, reader)))


def _purpose(program: ShardingProgram, source: Value, reader: _Reader) -> Purpose:
    """Return what a tensor moves for, from where it is made to an operator that reads it."""
    giver, node = program.graph.operators[source.operator], program.nodes[reader.node]
    if giver.role is Role.PARAMETER:
        return Purpose.GATHER
    if node.kind is NodeKind.SUM:
        return Purpose.REDUCTION
    taker = program.graph.operators[node.operator]
    is_read = node.kind is NodeKind.OPERATOR and taker.cost.flops
    return Purpose.PRODUCT if is_read or giver.cost.flops else Purpose.OTHER


def _add_result(program: ShardingProgram, value: Value, readers: _Readers) -> None:
    """Add a node for a value that leaves the graph, which must be no partial sum and no strided split."""
    route = program.graph.routes(value, 1)[0]
    tensor = replace(program.graph.operators[value.operator].outputs[value.output], blocks=())
    backward = program.graph.operators[value.operator].backward
    node = Node(
        operator=route.source.operator,
        kind=NodeKind.RESULT,
        strategies=_unchanged(placements(tensor, program.mesh.shape, partial=False)),
        times=1,
        runs=Runs.ONCE,
        backward=backward,
    )
    reader = _Reader(node=program.add_node(node), input=0, views=route.views)
    readers.setdefault(_Group.of(route, backward=backward), []).append(reader)


def _unchanged(states: Iterable[Placement]) -> tuple[OperatorStrategy, ...]:
    """Return the strategies of a node that leaves its tensor as it comes, in one of these placements."""
    return tuple(OperatorStrategy(inputs=(state,), outputs=(state,)) for state in states)


def _add_update(program: ShardingProgram, parameter: int, gradient: Value, readers: _Readers) -> None:
    """Add the nodes in which a parameter's gradient is summed and the parameter updated.

    Gradients are summed over the microbatches, as they come or reduced; then reduced to where the update happens; and
    the new parameters are brought to where they are kept.
    """
    operator = program.graph.operators[parameter]
    tensor, shape = operator.outputs[0], program.mesh.shape
    kept, times = list(placements(tensor, shape, partial=True)), operator.times
    added = times * (program.training.num_microbatches - 1)  # the gradient of the first microbatch stays where it is
    summing = Node(
        operator=parameter,
        kind=NodeKind.SUM,
        strategies=_unchanged(kept),
        times=times,
        runs=_runs(times),
        backward=True,
    )
    sum_node = program.add_node(
        summing,
        costs=[addition_ns(tensor, placement, program.mesh) * added for placement in kept],
        memory=[times * local_bytes(tensor, placement, shape) for placement in kept],
    )
    for route in program.graph.routes(gradient, operator.times):
        reader = _Reader(node=sum_node, input=0, views=route.views)
        readers.setdefault(_Group.of(route, backward=True), []).append(reader)

    updated, state = list(placements(tensor, shape, partial=False)), program.training.optimizer_bytes_per_parameter
    update_node = program.add_node(
        replace(summing, kind=NodeKind.UPDATE, strategies=_unchanged(updated)),
        costs=[times * update_ns(tensor, placement, program.mesh, state_bytes=state) for placement in updated],
        memory=[times * state * (local_bytes(tensor, placement, shape) // tensor.item_bytes) for placement in updated],
    )
    for first, second, purpose in (
        (sum_node, update_node, Purpose.STEP_REDUCTION),
        (update_node, program.node_of[parameter], Purpose.STEP_GATHER),
    ):
        program.connect(
            Edge(first=first, second=second, tensor=tensor, times=times, runs=_runs(times), purpose=purpose)
        )
