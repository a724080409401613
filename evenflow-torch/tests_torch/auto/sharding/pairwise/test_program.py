"""Programs as values."""

import numpy as np
import pytest

from evenflow_torch.auto.sharding.pairwise import Pairwise, solve


def test_edge_of_a_node_with_itself() -> None:
    program = Pairwise()
    node = program.node(np.array([0.0, 1.0]), np.zeros(2))
    program.edge(node, node, np.array([[5.0, 0.0], [0.0, 2.0]]))
    assert solve(program).cost == pytest.approx(3)


def test_edges_between_the_same_nodes_add_up_whichever_comes_first() -> None:
    program = Pairwise(costs=[np.zeros(2), np.zeros(3)], memory=[np.zeros(2), np.zeros(3)])
    table = np.arange(6.0).reshape(2, 3)
    program.edge(0, 1, table)
    program.edge(1, 0, 10 * table.T)
    assert program.cost_of((1, 2)) == 11 * 5
    assert not program.edges.keys() - {(0, 1)}
