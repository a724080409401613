"""A program with another number of equal layers, against the one that is built for them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster import Mesh, MeshAxis  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from evenflow_torch.models.trace.captured_layers import capture_layers  # noqa: E402
from evenflow_torch.models.trace.operator_graph import OperatorGraph  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

AXIS = MeshAxis(size=2, bandwidth_bytes_per_s=10**11, latency_ns=1_000)
MESH = Mesh(axes=(AXIS,), accelerator=plain_accelerator(flops_per_s=1e14, memory_bytes_per_s=1e12))
TABLE = StrategyTable(rules=torch_rules)


class Shifted(nn.Module):  # type: ignore[misc,name-defined]
    """A layer with a skip connection, and a table that every layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)
        self.register_buffer("table", torch.zeros(4, 16))

    def forward(self, hidden: "torch.Tensor") -> "torch.Tensor":
        return hidden + self.linear(self.norm(hidden) * self.table.tanh())


@pytest.fixture(scope="module")
def graph() -> OperatorGraph:
    part = Part(name="layer", module=Shifted(), inputs=(torch.empty(8, 4, 16),))
    return capture_layers([part], (0,) * 5).graphs[0]


@pytest.mark.parametrize("before", [2, 3, 5])
@pytest.mark.parametrize("after", [2, 3, 6])
@pytest.mark.parametrize("num_microbatches", [1, 3, 5])
def test_other_numbers_of_layers(graph: OperatorGraph, before: int, after: int, num_microbatches: int) -> None:
    training = ModuleTraining(num_microbatches=num_microbatches, microbatches_in_flight=2)
    changed = build(graph.with_layers(before), MESH, training, TABLE).with_layers(after)
    built = build(graph.with_layers(after), MESH, training, TABLE)
    assert changed.nodes == built.nodes
    assert changed.edges == built.edges
    assert changed.graph == built.graph
    for ours, theirs in ((changed.compute, built.compute), (changed.pairwise.memory, built.pairwise.memory)):
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert any(edge.times != node.times for edge in built.edges for node in [built.nodes[edge.second]])
