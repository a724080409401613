import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.shared.layer_counts import parse_counts
from evenflow.errors import InputError


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1))
def test_counts_are_read_as_they_are_written(counts):
    assert parse_counts(",".join(map(str, counts)), "--layers") == counts
    assert parse_counts(" , ".join(map(str, counts)), "--layers") == counts


@pytest.mark.parametrize("text", ["", "1,", "1;2", "-1", "1.5", "²", "9" * 10])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(InputError, match=r"^--layers must be counts, separated by commas"):
        parse_counts(text, "--layers")
