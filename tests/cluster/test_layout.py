"""Boxes of tensors on devices, beside what torch's DTensor gives each device."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.layout import REPLICATED, TensorLayout, chunk, split, volume
from evenflow.errors import InputError

RANGES = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda ends: (min(ends), max(ends)))
BOXES = st.tuples(RANGES, RANGES)


def layout(shape: tuple[int, ...], mesh: tuple[int, ...], placement: tuple[int, ...]) -> TensorLayout:
    count = 1
    for size in mesh:
        count *= size
    return TensorLayout(shape=shape, item_bytes=2, mesh=mesh, placement=placement, devices=tuple(range(count)))


def test_the_first_axis_splits_outside_the_second() -> None:
    boxes = layout((8,), (2, 2), (0, 0)).boxes
    assert [boxes[device] for device in range(4)] == [((0, 2),), ((2, 4),), ((4, 6),), ((6, 8),)]


def test_replicated_axes_hold_the_same_and_last_parts_may_be_empty() -> None:
    boxes = layout((5, 3), (2, 4), (REPLICATED, 0)).boxes
    assert boxes[1] == boxes[5] == ((2, 4), (0, 3))
    assert volume(boxes[3]) == 0


@given(begin=st.integers(0, 9), size=st.integers(0, 20), parts=st.integers(1, 6))
def test_chunks_cover_a_range_in_order(begin: int, size: int, parts: int) -> None:
    chunks = [chunk(begin, begin + size, parts, index) for index in range(parts)]
    assert [place for first, end in chunks for place in range(first, end)] == list(range(begin, begin + size))


@given(box=BOXES, parts=st.integers(1, 5))
def test_parts_of_a_box_are_disjoint_and_whole(box: tuple, parts: int) -> None:
    pieces = list(split(box, parts))
    assert len(pieces) <= parts
    assert sum(map(volume, pieces)) == volume(box)
    cells = [cell for piece in pieces for cell in product(*(range(begin, end) for begin, end in piece))]
    assert len(cells) == len(set(cells))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"placement": (-2,)}, "reduce partial sums"),
        ({"placement": (1,)}, "a dimension of the shape"),
        ({"placement": (0, 0)}, "placement for each mesh axis"),
        ({"devices": (1, 1)}, "differ"),
    ],
)
def test_wrong_layouts_are_refused(change: dict[str, tuple[int, ...]], words: str) -> None:
    values = {"shape": (4,), "item_bytes": 1, "mesh": (2,), "placement": (0,), "devices": (0, 1), **change}
    with pytest.raises(InputError, match=words):
        TensorLayout(**values)
