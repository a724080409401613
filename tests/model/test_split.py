"""A user's own cut of the layers: dealt out, and refused where it fits nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model.split import check_split, deal_layers


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(1, 4))
def test_layers_are_dealt_evenly_and_earlier_chunks_get_more(per_rank: list[int], num_chunks: int):
    dealt = deal_layers(per_rank, num_chunks=num_chunks)
    by_rank = list(zip(*dealt, strict=True))
    assert [sum(own) for own in by_rank] == per_rank
    assert all(list(own) == sorted(own, reverse=True) and own[0] - own[-1] <= 1 for own in by_rank)


@pytest.mark.parametrize(
    ("layers", "min_layers", "message"),
    [
        (((2, 2),), 1, "a row for each chunk and a number for each rank, 2 x 2"),
        (((2,), (1,)), 1, "2 x 2"),
        (((2, 0), (1, 1)), 1, "chunk 0, rank 1 must hold at least one layer, got 0; do not forbid empty cells"),
        (((2, 2), (1, -1)), 0, "chunk 1, rank 1 must not be negative"),
        (((2, 2), (1, 1)), 1, "must add up to the 4 layers"),
    ],
)
def test_a_cut_that_fits_nothing_is_refused(layers: tuple[tuple[int, ...], ...], min_layers: int, message: str):
    with pytest.raises(InputError, match=message):
        check_split(layers, num_layers=4, num_ranks=2, num_chunks=2, min_layers=min_layers)


def test_a_cut_that_fits_is_left_in_peace():
    check_split(((1, 1), (1, 1)), num_layers=4, num_ranks=2, num_chunks=2, min_layers=1)
    check_split(((4, 0), (0, 0)), num_layers=4, num_ranks=2, num_chunks=2, min_layers=0)
