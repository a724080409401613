import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.placement import (
    PARTIAL,
    REPLICATE,
    WholeTensor,
    blocks_of,
    code,
    dimension_of,
    is_even,
    local_bytes,
    parse_code,
    placements,
    split_along,
)

SPLITS = st.builds(split_along, st.integers(0, 63), st.integers(1, 10**12))


@given(st.lists(st.sampled_from([PARTIAL, REPLICATE, 0, 1, 12]) | SPLITS, max_size=3).map(tuple))
def test_codes_read_back(placement: tuple[int, ...]) -> None:
    assert parse_code(code(placement)) == placement


@pytest.mark.parametrize(
    "text",
    [
        "S",
        "S(-1)",
        "S(x)",
        "Q",
        "S(0)R",
        "S(64)",
        "S(999999999)",
        "SS(0)",
        "SS(0,1)",
        "SS(0,0)",
        "SS(64,2)",
        "SS(0, 2)",
    ],
)
def test_other_codes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="none of R, P, S"):
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


@given(dimension=st.integers(0, 63), blocks=st.integers(1, 10**12))
def test_a_split_is_its_dimension_and_its_blocks(dimension: int, blocks: int) -> None:
    split = split_along(dimension, blocks)
    assert (dimension_of(split), blocks_of(split)) == (dimension, blocks)
    assert split_along(dimension) == dimension


def test_strided_splits_are_even_by_their_blocks() -> None:
    tensor = WholeTensor(shape=(12,), item_bytes=1, blocks=((3,),))
    strided = split_along(0, 3)
    assert is_even(tensor, (strided,), (4,))
    assert not is_even(tensor, (strided,), (3,))  # 12 rows divide by three, but not the four of a block
    assert set(placements(tensor, (2,), partial=False)) == {(REPLICATE,), (0,), (strided,)}
    assert (0, strided) not in set(placements(tensor, (3, 2), partial=False))  # the same as (0, 0)
    assert local_bytes(tensor, (strided,), (2,)) == 6
