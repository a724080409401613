"""Tables of integers, and the join of two columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.traces.formats.columns import IntegerColumns, joined

columns = st.lists(st.integers(-3, 6), max_size=12).map(lambda values: np.array(values, dtype=np.int64))


@given(columns, columns)
def test_every_wanted_value_is_joined_to_one_key_that_has_it(keys, wanted):
    of_key, of_wanted = joined(keys, wanted)
    assert keys[of_key].tolist() == wanted[of_wanted].tolist()
    assert of_wanted.tolist() == [index for index, value in enumerate(wanted) if value in keys]


def test_batches_are_one_table():
    table = IntegerColumns(2)
    assert not table
    assert table.columns().shape == (2, 0)
    table.add([1, 2], [3, 4])
    table.add([], [])
    table.add([5], [6])
    assert table.columns().tolist() == [[1, 2, 5], [3, 4, 6]]
    table.clear()
    assert not table
