"""Translates the choices of a sharding program into placements of the model's tensors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evenflow.cluster import REPLICATE, AttentionOnMesh, Collective, Placement
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy
from evenflow_torch.auto.sharding.operator_time import InnerTime, inner_times
from evenflow_torch.auto.sharding.overlap import Item, step_costs
from evenflow_torch.auto.sharding.pairwise import PairwiseSolution
from evenflow_torch.auto.sharding.program import Edge, Node, NodeKind, ShardingProgram
from evenflow_torch.auto.sharding.sharding_plan import (
    ActivationSharding,
    CostPart,
    DeviceMemory,
    ParameterSharding,
    Phase,
    PlannedCollective,
    ShardingPlan,
)
from evenflow_torch.models.trace.operator_graph import ATTENTION, Operator, OperatorGraph, Role, Value


def plan_of(program: ShardingProgram, solution: PairwiseSolution) -> ShardingPlan:
    """Return the plan of a solution, without placements where it has no choices."""
    plan = ShardingPlan(
        status=solution.status,
        mesh_shape=program.mesh.shape,
        lower_bound_ns=solution.lower_bound,
        replicated_operators=_replicated(program),
    )
    if not solution.choices:
        return plan
    return replace(
        plan,
        parameters=_parameters(program, solution.choices),
        activations=_activations(program, solution.choices),
        collectives=_collectives(program, solution.choices),
        cost=step_costs(amounts_of(program, solution.choices), program.training.num_microbatches),
        memory=memory_of(program, solution.choices),
    )


def chosen(program: ShardingProgram, choices: tuple[int, ...], operator: int) -> OperatorStrategy:
    """Return the strategy chosen for an operator, which must not be a view."""
    node = program.node_of[operator]
    return program.nodes[node].strategies[choices[node]]


def _replicated(program: ShardingProgram) -> tuple[str, ...]:
    used = {operator.target for operator in program.graph.operators if operator.inputs}
    return tuple(sorted(program.table.unknown & used))


def _parameters(program: ShardingProgram, choices: tuple[int, ...]) -> tuple[ParameterSharding, ...]:
    after = {
        (node.operator, node.kind): node.strategies[choice].outputs[0]
        for node, choice in zip(program.nodes, choices, strict=True)
    }
    return tuple(
        ParameterSharding(
            name=operator.name,
            shape=operator.outputs[0].shape,
            dimensions=dimension_names(program.graph, index),
            kept=after[index, NodeKind.OPERATOR],
            used=_used(program, choices, index),
            gradient=after.get((index, NodeKind.SUM), after[index, NodeKind.OPERATOR]),
            update=after.get((index, NodeKind.UPDATE), after[index, NodeKind.OPERATOR]),
        )
        for index, operator in enumerate(program.graph.operators)
        if operator.role is Role.PARAMETER
    )


def _used(program: ShardingProgram, choices: tuple[int, ...], parameter: int) -> Placement:
    """Return a parameter's placement where the forward reads it.

    It is whole along the axes over which it is gathered for all readers, and otherwise as it is kept.
    """
    node = program.node_of[parameter]
    kept = program.nodes[node].strategies[choices[node]].outputs[0]
    gathered: list[set[int]] = []
    for edge in program.edges:
        reader = program.nodes[edge.second]
        if edge.first == node and not reader.backward and reader.kind in (NodeKind.OPERATOR, NodeKind.COPY):
            steps = program.path(edge, choices)
            is_gathered = all(step.collective is Collective.ALL_GATHER for step in steps)
            gathered.append({step.axis for step in steps} if is_gathered else set())
    axes = set.intersection(*gathered) if gathered else set()
    return tuple(REPLICATE if axis in axes else split for axis, split in enumerate(kept))


def dimension_names(graph: OperatorGraph, parameter: int) -> tuple[str, ...]:
    """Name dimensions: columns of a matrix are its outputs, rows its inputs, whichever way round it is stored."""
    shape = graph.operators[parameter].outputs[0].shape
    numbers = tuple(f"dimension {at}" for at in range(len(shape)))
    if len(shape) != 2:
        return numbers
    for operator in graph.operators:
        if operator.backward or operator.role is not Role.COMPUTE or not operator.inputs:
            continue
        route = graph.routes(operator.inputs[-1], 1)[0]
        if operator.cost.flops and route.source.operator == parameter:
            turned = sum(graph.operators[view].target in _TRANSPOSES for view in route.views) % 2
            return ("column", "row") if turned else ("row", "column")
        if operator.target.startswith("aten.embedding.") and operator.inputs[0].operator == parameter:
            return ("vocabulary", "column")
    return numbers


EXPERTS_TARGET = "evenflow.experts.default"
_TRANSPOSES = ("aten.t.default", "aten.transpose.int", "aten.permute.default", "aten.numpy_T.default")


def _label(graph: OperatorGraph, operator: Operator) -> str:
    """Name an operator by the module whose parameter it uses, if it uses one."""
    suffix = " (backward)" if operator.backward else ""
    for value in operator.inputs:
        source = graph.operators[graph.routes(value, 1)[0].source.operator]
        if source.role is Role.PARAMETER and (
            operator.cost.flops or "embedding" in operator.target or "norm" in operator.target
        ):
            return f"{source.name.rpartition('.')[0] or source.name}{suffix}"
    name = "attention" if "attention" in operator.target else operator.name
    return f"{name}{suffix}"


def _activations(program: ShardingProgram, choices: tuple[int, ...]) -> tuple[ActivationSharding, ...]:
    """Return where inputs, results of products, attention, embeddings and norms, and the module's results lie."""
    graph = program.graph
    returned = {graph.routes(value, 1)[0].source.operator for value in graph.outputs}
    activations = []
    for index, operator in enumerate(graph.operators):
        label = _label(graph, operator)
        matters = operator.role is Role.INPUT or (
            operator.role is Role.COMPUTE and (operator.cost.flops or index in returned or label != operator.name)
        )
        if matters and not operator.backward:
            activations.append(
                ActivationSharding(
                    name=label,
                    shape=operator.outputs[0].shape,
                    placement=chosen(program, choices, index).outputs[0],
                    reads=_reads(program, choices, index),
                    experts=_experts(program, choices, index),
                    module=operator.module,
                    attention=_attention(program, choices, index),
                )
            )
    return tuple(activations)


def _reads(program: ShardingProgram, choices: tuple[int, ...], index: int) -> Placement | None:
    """Return the placement in which a product reads its input, the only factor that is no parameter."""
    graph = program.graph
    operator = graph.operators[index]
    if operator.target == EXPERTS_TARGET:
        return chosen(program, choices, index).inputs[0]
    factors = [
        position
        for position, value in enumerate(operator.inputs)
        if graph.operators[graph.routes(value, 1)[0].source.operator].role is not Role.PARAMETER
    ]
    if not operator.cost.flops or len(factors) != 1:
        return None
    return chosen(program, choices, index).inputs[factors[0]]


def _experts(program: ShardingProgram, choices: tuple[int, ...], index: int) -> Placement | None:
    """Return the placement in which an operator of experts uses their matrices."""
    operator = program.graph.operators[index]
    if operator.target != EXPERTS_TARGET:
        return None
    of_up = chosen(program, choices, index).inputs[3]
    return tuple(min(split, 1) for split in of_up)  # the first matrix: whatever is not its experts is their width


def _attention(program: ShardingProgram, choices: tuple[int, ...], index: int) -> AttentionOnMesh | None:
    """Return how devices share an operator of fused attention, and its backward where that is split alike."""
    operators = program.graph.operators
    if ATTENTION not in operators[index].target:
        return None
    own = chosen(program, choices, index)
    sums = Value(operator=index, output=1)
    backward = (
        chosen(program, choices, at)
        for at, other in enumerate(operators)
        if other.backward and ATTENTION in other.target and sums in other.inputs
    )
    other = next((strategy for strategy in backward if strategy.outputs[0] == own.outputs[0]), own)
    return AttentionOnMesh(placement=own.outputs[0], rows=own.rows, backward_rows=other.rows)


def _collectives(program: ShardingProgram, choices: tuple[int, ...]) -> tuple[PlannedCollective, ...]:
    """Yield the collectives on every edge, in order, and then those that operators run themselves."""
    collectives = []
    for edge in program.edges:
        node = program.nodes[edge.second]
        label = _label(program.graph, program.graph.operators[node.operator])
        for step in program.path(edge, choices):
            assert step.collective is not None  # what is free is left out of a path
            collectives.append(
                PlannedCollective(
                    before=label,
                    collective=step.collective,
                    axis=step.axis,
                    shape=edge.tensor.shape,
                    times=edge.times,
                    time_ns=step.time_ns,
                    part=_part(node, edge, step.collective),
                    phase=_phase(node, edge),
                )
            )
    return (*collectives, *_inner_collectives(program, choices))


def _inner_collectives(program: ShardingProgram, choices: tuple[int, ...]) -> Iterator[PlannedCollective]:
    """Yield the collectives that operators run themselves, with the time they add to the computation."""
    for node, inner in inner_times_of(program, choices):
        operator = program.graph.operators[node.operator]
        tensors = (*program.graph.inputs(operator), *operator.outputs)
        yield PlannedCollective(
            before=_label(program.graph, operator),
            collective=inner.exchange.collective,
            axis=inner.axis,
            shape=tensors[inner.exchange.tensor].shape,
            times=node.times,
            time_ns=inner.exposed_ns,
            part=CostPart.COMMUNICATION,
            phase=Phase.BACKWARD if node.backward else Phase.FORWARD,
        )


def inner_times_of(program: ShardingProgram, choices: Sequence[int]) -> Iterator[tuple[Node, InnerTime]]:
    """Yield the collectives that operators run themselves, each with the operator's node."""
    for node, choice in zip(program.nodes, choices, strict=True):
        strategy = node.strategies[choice]
        if node.kind is NodeKind.OPERATOR and strategy.exchanges:
            operator = program.graph.operators[node.operator]
            for inner in inner_times(operator, program.graph.inputs(operator), strategy, program.mesh):
                yield node, inner


def _phase(node: Node, edge: Edge) -> Phase:
    if edge.purpose.is_once:
        return Phase.UPDATE
    return Phase.BACKWARD if node.backward else Phase.FORWARD


def _part(node: Node, edge: Edge, collective: Collective) -> CostPart:
    if node.kind in (NodeKind.SUM, NodeKind.UPDATE) or edge.purpose.is_once:
        return CostPart.GRADIENT
    is_sum = collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
    return CostPart.COMMUNICATION if is_sum else CostPart.RESHARDING


def amounts_of(program: ShardingProgram, choices: tuple[int, ...]) -> Counter[Item]:
    """Return what the device computes and exchanges in a step, and what of it can run under what."""
    amounts: Counter[Item] = Counter()
    for node, costs, choice in zip(program.nodes, program.compute, choices, strict=True):
        if node.kind is NodeKind.UPDATE:
            item = Item(phase=Phase.UPDATE, part=CostPart.OPTIMIZER)
        else:
            item = Item(phase=Phase.BACKWARD if node.backward else Phase.FORWARD, part=CostPart.COMPUTE)
        amounts[item] += int(costs[choice])
    for edge in program.edges:
        node = program.nodes[edge.second]
        window, share = program.hides(edge)
        for step in program.path(edge, choices):
            assert step.collective is not None
            phase, part = _phase(node, edge), _part(node, edge, step.collective)
            hideable = int(step.time_ns * share)
            amounts[Item(phase=phase, part=part, window=window)] += edge.times * hideable
            amounts[Item(phase=phase, part=part)] += edge.times * (step.time_ns - hideable)
    for node, inner in inner_times_of(program, choices):
        phase = Phase.BACKWARD if node.backward else Phase.FORWARD
        amounts[Item(phase=phase, part=CostPart.COMMUNICATION)] += node.times * inner.exposed_ns
        amounts[Item(phase=phase, part=CostPart.COMMUNICATION, inside=True)] += node.times * inner.hidden_ns
    return amounts


def memory_of(program: ShardingProgram, choices: tuple[int, ...]) -> DeviceMemory:
    """Return the memory that one device needs under these choices."""
    parameter = gradient = optimizer = activation = 0
    for node, memory, choice in zip(program.nodes, program.pairwise.memory, choices, strict=True):
        size = int(memory[choice])
        if node.kind is NodeKind.SUM:
            gradient += size
        elif node.kind is NodeKind.UPDATE:
            optimizer += size
        elif program.graph.operators[node.operator].role in (Role.PARAMETER, Role.BUFFER):
            parameter += size
        else:
            activation += size
    return DeviceMemory(
        parameter_bytes=parameter, gradient_bytes=gradient, optimizer_bytes=optimizer, activation_bytes=activation
    )
