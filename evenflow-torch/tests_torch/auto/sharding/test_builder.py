"""The sharding program of a small module: its nodes, and how its costs and memory follow from the training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining, NodeKind, ShardingProgram  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from evenflow_torch.models.trace.operator_graph import OperatorGraph, Role  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

MESH = Mesh(
    axes=(MeshAxis(size=2, bandwidth_bytes_per_s=10**9, latency_ns=1_000),),
    accelerator=plain_accelerator(flops_per_s=1e9, memory_bytes_per_s=1e9),
)
TABLE = StrategyTable(rules=torch_rules)
WIDTH = 8


@pytest.fixture(scope="module")
def graph() -> OperatorGraph:
    module = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False))
    return capture(module, torch.empty(4, WIDTH, requires_grad=True))


def program(graph: OperatorGraph, **training: int) -> ShardingProgram:
    return build(graph, MESH, ModuleTraining(**training), TABLE)


def memory(made: ShardingProgram, kind: NodeKind, *roles: Role) -> np.ndarray:
    """The memory of all choices of these nodes, one behind the other."""
    of_nodes = zip(made.nodes, made.pairwise.memory, strict=True)
    return np.concatenate([
        own for node, own in of_nodes if node.kind is kind and made.graph.operators[node.operator].role in roles
    ])  # fmt: skip


def test_every_operator_but_views_has_a_node_and_every_parameter_a_sum_and_an_update(graph: OperatorGraph) -> None:
    made = program(graph)
    assert set(made.node_of) == {at for at, each in enumerate(graph.operators) if each.role is not Role.VIEW}
    parameters = sorted(at for at, each in enumerate(graph.operators) if each.role is Role.PARAMETER)
    assert len(parameters) == 2
    for kind in (NodeKind.SUM, NodeKind.UPDATE):
        assert sorted(node.operator for node in made.nodes if node.kind is kind) == parameters
    results = [node for node in made.nodes if node.kind is NodeKind.RESULT]
    assert len(results) == len(graph.outputs)


def test_what_leaves_the_graph_and_where_parameters_are_updated_is_no_partial_sum(graph: OperatorGraph) -> None:
    made = program(graph)
    for node in made.nodes:
        if node.kind in (NodeKind.RESULT, NodeKind.UPDATE):
            assert {one.outputs[0][0] for one in node.strategies} <= {REPLICATE, 0, 1}
        if node.kind is NodeKind.SUM:
            assert len(node.strategies) == 4, "replicated, either dimension, and a partial sum"


def test_only_saved_activations_grow_with_the_microbatches_in_flight(graph: OperatorGraph) -> None:
    one, three = program(graph), program(graph, microbatches_in_flight=3)
    saved = memory(one, NodeKind.OPERATOR, Role.COMPUTE, Role.INPUT)
    assert saved.any()
    assert (memory(three, NodeKind.OPERATOR, Role.COMPUTE, Role.INPUT) == 3 * saved).all()
    for kind in (NodeKind.OPERATOR, NodeKind.SUM, NodeKind.UPDATE):
        held = memory(one, kind, Role.PARAMETER)
        assert held.any()
        assert (memory(three, kind, Role.PARAMETER) == held).all()


def test_optimizer_state_lies_where_the_update_is(graph: OperatorGraph) -> None:
    made = program(graph, optimizer_bytes_per_parameter=12)
    whole = 12 * 4 * WIDTH * WIDTH
    for node, own in zip(made.nodes, made.pairwise.memory, strict=True):
        if node.kind is NodeKind.UPDATE:
            sizes = {one.outputs[0]: int(size) for one, size in zip(node.strategies, own, strict=True)}
            assert sizes == {(REPLICATE,): whole, (0,): whole // 2, (1,): whole // 2}
    nothing = program(graph, optimizer_bytes_per_parameter=0)
    assert not memory(nothing, NodeKind.UPDATE, Role.PARAMETER).any()


def test_work_is_done_for_every_microbatch_and_synchronisation_once(graph: OperatorGraph) -> None:
    one, two, four = (program(graph, num_microbatches=number) for number in (1, 2, 4))
    assert [node.kind for node in one.nodes] == [node.kind for node in four.nodes]
    for node, *spent in zip(one.nodes, one.compute, two.compute, four.compute, strict=True):
        if node.kind is NodeKind.SUM:  # the first gradient is where it is, and the others are added to it
            whole = 4 * WIDTH * 4 * WIDTH  # bytes; both factors are read, one written
            assert [dict(zip(node.strategies, ns, strict=True))[node.strategies[0]] for ns in spent] == [
                0, 3 * whole, 3 * 3 * whole,
            ]  # fmt: skip
        elif node.kind is NodeKind.UPDATE:
            assert (spent[2] == spent[0]).all()
        else:
            assert (spent[2] == 4 * spent[0]).all()
    for before, after in zip(one.edges, four.edges, strict=True):
        assert after.times == before.times * (1 if before.purpose.is_once else 4)
    assert sum(edge.purpose.is_once for edge in one.edges) == 2 * 2, "sum to update, update to parameter"
