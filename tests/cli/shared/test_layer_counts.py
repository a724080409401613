import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.shared.layer_counts import layers_by_chunk, parse_counts
from evenflow.errors import InputError


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1))
def test_counts_are_read_as_they_are_written(counts):
    assert parse_counts(",".join(map(str, counts)), "--layers") == counts
    assert parse_counts(" , ".join(map(str, counts)), "--layers") == counts


@pytest.mark.parametrize("text", ["", "1,", "1;2", "-1", "1.5", "²", "9" * 10])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(InputError, match=r"^--layers must be counts, separated by commas"):
        parse_counts(text, "--layers")


@given(st.lists(st.integers(0, 99), min_size=1, max_size=5), st.integers(1, 4))
def test_one_list_is_dealt_over_the_chunks(counts, chunks):
    layers = layers_by_chunk([",".join(map(str, counts))], num_chunks=chunks, place="--layers")
    assert [sum(row[rank] for row in layers) for rank in range(len(counts))] == counts
    for rank in range(len(counts)):
        column = [row[rank] for row in layers]
        assert column == sorted(column, reverse=True)
        assert column[0] - column[-1] <= 1


def test_a_list_for_each_chunk_is_taken_as_it_is():
    assert layers_by_chunk(["1,2", "4,1"], num_chunks=2, place="--layers") == ((1, 2), (4, 1))
    with pytest.raises(InputError, match=r"^--layers must be given once, or once for each of the 3 chunks, got 2"):
        layers_by_chunk(["1,2", "4,1"], num_chunks=3, place="--layers")
