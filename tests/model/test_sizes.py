"""The sizes of a pipeline, and what they refuse."""

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Request, Sizes
from evenflow.model.sizes import MOST_ACTIONS
from tests.strategies import FamilySizes, networks, sizes

GOOD = {"num_ranks": 2, "num_chunks": 3, "num_microbatches": 5, "sequence_splits": 7}


def test_cells_and_units():
    assert (Sizes(**GOOD).num_cells, Sizes(**GOOD).num_units) == (6, 35)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("count", [0, -1])
def test_counts_below_one_are_refused(name: str, count: int):
    with pytest.raises(InputError, match=f"must be an integer from 1 to .*, got {count}"):
        Sizes(**(GOOD | {name: count}))


def test_steps_too_long_to_handle_are_refused():
    assert Sizes(num_ranks=1, num_microbatches=MOST_ACTIONS // 2).num_units == MOST_ACTIONS // 2
    with pytest.raises(InputError, match="at most 4,000,000 forwards and backwards, to be simulated, got 4000004"):
        Sizes(num_ranks=2, num_microbatches=MOST_ACTIONS // 4 + 1)


@given(size=sizes())
def test_a_schedule_tells_its_sizes(size: FamilySizes):
    assert size.schedule().sizes == size.sizes


@given(network=networks())
def test_a_request_says_the_fewest_layers_of_a_cell(network):
    request = Request(network=network, sizes=Sizes(num_ranks=1, num_microbatches=1))
    assert (request.min_layers, request.message_ns) == (0, 0)
    assert Request(network=network, sizes=request.sizes, allow_empty=False).min_layers == 1
