"""Costs of stages as sums over their layers."""

import pytest

from evenflow.errors import InputError
from evenflow_torch.auto.sharding.ways import Level
from tests_torch.auto.sharding.made_costs import GATHER_NS, SPLIT, WHOLE, layer_cost, made_costs

COSTS = made_costs([0, 1, 1, 1, 2], [layer_cost(1000), layer_cost(10, base=7), layer_cost(500, entry=WHOLE)])


def test_a_run_of_equal_layers_is_a_line() -> None:
    options = [COSTS.options(1, end)[Level.FASTEST] for end in (2, 3, 4)]
    assert [option.forward_ns for option in options] == [17, 27, 37]
    assert [option.static_bytes for option in options] == [17, 27, 37]


def test_kinds_add_up_with_the_moves_between_them() -> None:
    whole = COSTS.options(0, 5)[Level.SMALLEST]
    assert whole.way is Level.SMALLEST
    # Into the last layer what is split is gathered; its gradient comes back whole, and each device keeps its part.
    assert COSTS.between(4, Level.FASTEST) == (GATHER_NS, 0)
    assert whole.forward_ns == 1000 + 37 + 500 + GATHER_NS
    assert whole.backward_ns == 1000 + 37 + 500
    assert whole.resharding_ns == 1000 + 37 + 500 + GATHER_NS
    assert whole.activation_bytes == 1000 + 37 + 500


def test_boundaries_are_those_of_the_layers() -> None:
    assert COSTS.entry(4, Level.FAST)[1] == WHOLE
    assert COSTS.exit(3, Level.FAST)[1] == SPLIT


@pytest.mark.parametrize(("first", "end"), [(2, 2), (-1, 2), (3, 6)])
def test_stages_without_layers_are_refused(first: int, end: int) -> None:
    with pytest.raises(InputError, match="stage must be a run"):
        COSTS.options(first, end)
