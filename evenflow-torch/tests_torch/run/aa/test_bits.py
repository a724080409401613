"""Numbers are compared bit for bit."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from evenflow_torch.run.aa.bits import checksum, flip_bit, num_different


@given(
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_one_flipped_bit_is_one_number(dtype: torch.dtype, shape: list[int], turned: bool) -> None:
    values = torch.randn(shape).to(dtype)
    values = values.transpose(0, -1) if turned and values.dim() > 1 else values
    other = values.clone()
    assert num_different(values, other) == 0
    if values.numel():
        flip_bit(other)
        assert num_different(values, other) == 1


def test_bits_tell_what_numbers_do_not() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert num_different(nan, nan.clone()) == 0
    assert num_different(torch.tensor([0.0, 2.0]), torch.tensor([-0.0, 2.0])) == 1
    other = nan.clone()
    other.view(torch.int32)[0] ^= 1  # another NaN
    assert num_different(nan, other) == 1
    assert num_different(nan, nan.double()) == 2
    assert num_different(nan, nan[:1]) == 2


@given(
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.int64]),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(0, 63),
    st.data(),
)
def test_a_checksum_changes_with_any_bit_of_any_number(
    dtype: torch.dtype, shape: list[int], bit: int, data: st.DataObject
) -> None:
    values = torch.randn(shape).to(dtype)
    spoiled = values.clone()
    integers = spoiled.view({8: torch.int64, 4: torch.int32, 2: torch.int16}[values.element_size()])
    place = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    width = 8 * values.element_size()
    integers[place] ^= -(1 << (width - 1)) if bit % width == width - 1 else 1 << bit % width
    assert checksum(values) == checksum(values.clone())
    assert checksum(values) != checksum(spoiled)


def test_a_checksum_sees_rows_that_change_places() -> None:
    assert checksum(torch.tensor([[1.0, 2.0], [3.0, 4.0]])) != checksum(torch.tensor([[3.0, 4.0], [1.0, 2.0]]))
