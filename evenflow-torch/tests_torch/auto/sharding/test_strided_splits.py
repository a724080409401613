"""Strided splits: found where views merge dimensions, and used so that batch and sequence stay split through layers."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from evenflow import auto  # noqa: E402
from evenflow.cluster import REPLICATE, WholeTensor, blocks_of, code, dimension_of, split_along  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.pairwise import solve  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.solution_plan import chosen, plan_of  # noqa: E402
from evenflow_torch.auto.sharding.strided_splits import is_uniform  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule, OperatorGraph, Role  # noqa: E402

SEQUENCE, BATCH, WIDTH = 96, 64, 8
AXIS = auto.MeshAxis(size=2, bandwidth_bytes_per_s=10**9, latency_ns=1000)


class Linear(nn.Module):
    """(sequence, batch, width) through a product."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.linear(hidden)
        return result


def table() -> StrategyTable:
    return StrategyTable(rules=torch_rules)


def captured() -> OperatorGraph:
    with torch.device("meta"):
        graph = capture(Linear(), torch.zeros(SEQUENCE, BATCH, WIDTH))
    return table().with_strided_splits(graph, 2)


def test_only_rows_of_products_have_blocks() -> None:
    blocks = {}
    for operator in captured().operators:
        for tensor in operator.outputs:
            blocks[tensor.shape] = tensor.blocks
            assert operator.role in (Role.COMPUTE, Role.VIEW) or not tensor.blocks
    assert blocks[SEQUENCE * BATCH, WIDTH] == ((SEQUENCE,), ())
    assert blocks[WIDTH, SEQUENCE * BATCH] == ((), (SEQUENCE,))  # transposed, for the gradient of the weight
    assert blocks[SEQUENCE, BATCH, WIDTH] == ()
    assert blocks[WIDTH, WIDTH] == ()


def test_products_take_strided_rows() -> None:
    graph = captured()
    product = next(one for one in graph.operators if one.target == "aten.addmm.default")
    strided = split_along(0, SEQUENCE)
    found = {
        (one.inputs[1], one.inputs[2], one.outputs[0])
        for one in table().strategies(product, graph.inputs(product), (2, 2))
    }
    assert ((strided, 0), (REPLICATE, REPLICATE), (strided, 0)) in found  # batch and sequence
    assert ((strided, REPLICATE), (REPLICATE, 1), (strided, 1)) in found
    assert all(dimension_of(one) == 0 for pair in found for place in pair for one in place if blocks_of(one) > 1)


@pytest.mark.parametrize("split", [0, 1])
def test_a_batch_or_a_sequence_stays_split_through_a_product(split: int) -> None:
    """Whatever the input is split by, the layer costs no more than the reduction of its weight's gradient."""
    graph = captured()
    mesh = auto.Mesh(axes=(AXIS,))
    program = build(graph, mesh, ModuleTraining(), table())
    entry = next(i for i, one in enumerate(graph.operators) if one.role is Role.INPUT)
    node = program.node_of[entry]
    forbidden = [i for i, one in enumerate(program.nodes[node].strategies) if code(one.outputs[0]) != code((split,))]
    program.pairwise.costs[node][forbidden] = 1e15
    solution = solve(program.pairwise, memory_limit=None, time_limit_s=60)
    assert chosen(program, solution.choices, entry).outputs[0] == (split,)
    plan = plan_of(program, solution)
    assert plan.cost is not None
    assert plan.cost.resharding_ns == 0
    product = next(i for i, one in enumerate(graph.operators) if one.target == "aten.addmm.default")
    assert chosen(program, solution.choices, product).inputs[1] == ((0,) if split == 0 else (split_along(0, SEQUENCE),))


class Attention(nn.Module):
    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=batch_first)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.attention(hidden, hidden, hidden, need_weights=False)[0].pow(2).sum()
        return result


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention(batch_first=True),
        lambda: Attention(batch_first=False),
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True),
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0),
    ],
)
def test_torch_layers_can_be_data_parallel(make: Callable[[], nn.Module]) -> None:
    """With links that cost next to nothing but for their latency, all that is left are reductions of gradients."""
    with torch.device("meta"):
        plan = auto.shard(make(), torch.zeros(64, 64, WIDTH), auto.Mesh(axes=(AXIS,)))
    assert plan.cost is not None
    assert plan.replicated_operators == ()
    assert plan.cost.resharding_ns == 0
    assert plan.cost.gradient_ns > 0


def test_rules_that_split_dimensions_of_several_sizes_are_not_strided() -> None:
    tensors = (WholeTensor(shape=(4,), item_bytes=1), WholeTensor(shape=(8,), item_bytes=1))
    assert not is_uniform(AxisRule(inputs=(0,), outputs=(0,)), tensors)
    assert is_uniform(AxisRule(inputs=(0,), outputs=(REPLICATE,)), tensors)
    assert not is_uniform(AxisRule(inputs=(REPLICATE,), outputs=(REPLICATE,)), tensors)
    assert not is_uniform(AxisRule(inputs=(3,), outputs=(REPLICATE,)), tensors)
