import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.placement import (
    PARTIAL,
    REPLICATE,
    WholeTensor,
    code,
    is_even,
    local_bytes,
    parse_code,
    placements,
)


@given(st.lists(st.sampled_from([PARTIAL, REPLICATE, 0, 1, 12]), max_size=3).map(tuple))
def test_codes_read_back(placement: tuple[int, ...]) -> None:
    assert parse_code(code(placement)) == placement


@pytest.mark.parametrize("text", ["S", "S(-1)", "S(x)", "Q", "S(0)R"])
def test_other_codes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="none of R, P and S"):
        parse_code(text)


def test_two_axes_split_a_dimension_by_their_product() -> None:
    tensor = WholeTensor(shape=(4, 6), item_bytes=2)
    assert is_even(tensor, (0, 0), (2, 2))
    assert not is_even(tensor, (1, 1), (2, 2))
    assert local_bytes(tensor, (0, 1), (2, 3)) == 4 * 6 * 2 // 6
    assert local_bytes(tensor, (PARTIAL, REPLICATE), (2, 3)) == tensor.size_bytes


def test_an_axis_of_one_device_has_one_placement() -> None:
    tensor = WholeTensor(shape=(4, 6), item_bytes=2)
    assert list(placements(tensor, (1,), partial=True)) == [(REPLICATE,)]
    assert set(placements(tensor, (3,), partial=True)) == {(REPLICATE,), (1,), (PARTIAL,)}  # 4 does not divide by 3
    assert (PARTIAL,) not in placements(tensor, (2,), partial=False)
