"""The costs of a sharded layer some of whose modules recompute: collectives run again, as operators do."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.cluster import local_bytes
from evenflow_torch.auto.sharding.program import NodeKind, ShardingProgram
from evenflow_torch.auto.sharding.solution_plan import inner_times_of
from evenflow_torch.models.trace.dropping import Dropping


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedCost:
    """What a layer costs on one device, for one microbatch, under a recompute kind."""

    again_ns: int
    """Time of what is computed again."""
    activation_bytes: int
    """What is kept until the backward."""


def recomputed(program: ShardingProgram, choices: Sequence[int], drops: Dropping) -> RecomputedCost:
    """Return the costs of all layers of a program under these choices, for one microbatch."""
    running = {
        position
        for position, node in enumerate(program.nodes)
        if node.kind is NodeKind.OPERATOR and not node.backward and node.operator in drops.again
    }
    read = {edge.first for edge in program.edges if edge.second in running}
    copies = {position for position in read if program.nodes[position].kind is NodeKind.COPY}
    time_ns = sum(float(program.compute[position][choices[position]]) for position in running)
    own = {id(program.nodes[position]) for position in running}
    time_ns += sum(node.times * inner.exposed_ns for node, inner in inner_times_of(program, choices) if id(node) in own)
    for edge in program.edges:
        if edge.second in running or edge.second in copies:
            time_ns += edge.times * sum(step.time_ns for step in program.path(edge, tuple(choices)))
    size = 0
    for value in drops.kept:
        node = program.node_of[value.operator]
        operator = program.graph.operators[value.operator]
        placement = program.nodes[node].strategies[choices[node]].outputs[value.output]
        size += operator.times * local_bytes(operator.outputs[value.output], placement, program.mesh.shape)
    return RecomputedCost(again_ns=int(time_ns) // program.training.num_microbatches, activation_bytes=size)
