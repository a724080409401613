"""The middle of values from several sources, by hand."""

import pytest
from benchmarks.published.middle import FEWEST, middle_of, shrunk_middle_of
from hypothesis import example, given
from hypothesis import strategies as st

VALUES = st.lists(st.floats(-0.9, 5), min_size=1, max_size=8)
SOURCES = st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4)


def test_groups_of_a_source_weigh_the_same() -> None:
    large, small = [value / 100 for value in range(101)], [10.0, 11.0]
    low, high, values, sources = middle_of([[large, small]])
    assert (values, sources) == (103, 1)
    assert low == pytest.approx(0.20)  # a tenth of all is a fifth of the first group
    assert high == 11.0
    assert middle_of([[large * 7, small]])[:2] == pytest.approx((low, high))


def test_a_source_of_few_groups_weighs_less() -> None:
    full = [[0.0]] * FEWEST
    assert middle_of([full, [[1.0]]])[1] == 1.0  # a sixth of the weight
    assert middle_of([full, full, [[1.0]]])[1] == 0.0  # an eleventh


@given(SOURCES)
@example([[[0.0], [0.0], [0.0, 1.0]], [[0.0], [0.0, 0.0]]])  # nine tenths are reached but for rounding
def test_it_lies_among_the_values_and_no_order_matters(sources) -> None:
    found = middle_of(sources)
    every = [value for source in sources for group in source for value in group]
    assert min(every) <= found[0] <= found[1] <= max(every)
    assert found[2:] == (len(every), len(sources))
    again = middle_of([[group[::-1] for group in source[::-1]] for source in sources])
    assert again == pytest.approx(found)


def test_a_wider_kind_counts_as_one_more_source() -> None:
    own, wider = [[[0.0]] * FEWEST], [[[1.0]] * 50, [[2.0]] * 50]
    assert shrunk_middle_of(own, wider) == (0.0, 2.0, FEWEST, 1)
    assert shrunk_middle_of(own * 10, wider) == (0.0, 0.0, 10 * FEWEST, 10)  # an eleventh of the weight
    assert shrunk_middle_of(own, ()) == middle_of(own)
