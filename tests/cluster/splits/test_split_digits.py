"""Views of splits against views of arrays of indices, of which every device takes its part by hand."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import REPLICATE, WholeTensor, digits, is_offered, placement_of, placements, split_along
from evenflow.cluster.splits.split_digits import WHOLE, through_view, without_axis
from evenflow.cluster.splits.view_groups import DimensionGroups, cuts_behind, groups_of_shapes
from tests.cluster.splits.parts import arange, devices, part

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3).map(tuple)
MESHES = st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=2).map(tuple)


def test_digits_of_a_strided_split() -> None:
    assert digits((12, 5), (split_along(0, 3), REPLICATE), (2, 4)) == (((3, WHOLE), (2, 0), (2, WHOLE)), ((5, WHOLE),))
    # Two axes split the samples behind three blocks, a third one the blocks.
    inner = split_along(0, 3)
    assert digits((12,), (inner, 0, inner), (2, 3, 2)) == (((3, 1), (2, 0), (2, 2)),)
    assert digits((12,), (split_along(0, 5),), (2,)) is None  # five blocks do not divide twelve
    assert digits((12,), (0, inner), (2, 2)) is None  # nor do two devices three blocks


def test_a_merged_sequence_and_batch() -> None:
    sequence, batch = 6, 4
    tensor = WholeTensor(shape=(sequence * batch, 5), item_bytes=1, blocks=((sequence,), ()))
    merge = groups_of_shapes((sequence, batch, 5), tensor.shape)
    assert cuts_behind(merge, (sequence, batch, 5), tensor.shape, [(), (), ()]) == [{sequence}, set()]
    for before, after in (((1,), (split_along(0, sequence),)), ((0,), (0,)), ((2,), (1,))):
        found = digits((sequence, batch, 5), before, (2,))
        if found is None:
            assert before == (2,)  # five features on two devices
            continue
        there = through_view(found, merge, tensor.shape)
        assert there is not None
        assert placement_of(there, before) == after
        assert is_offered(tensor, after, (2,))


def blocked(shape: tuple[int, ...], cuts: list[set[int]]) -> WholeTensor:
    return WholeTensor(shape=shape, item_bytes=1, blocks=tuple(tuple(sorted(row)) for row in cuts))


def check_view(
    before: tuple[int, ...], after: tuple[int, ...], groups: DimensionGroups, mesh: tuple[int, ...], seen: np.ndarray
) -> None:
    """`seen` are the indices of the input's elements in the places of the result."""
    back = tuple((outputs, inputs) for inputs, outputs in groups)
    source = blocked(before, cuts_behind(back, after, before, [()] * len(after)))
    result = blocked(after, cuts_behind(groups, before, after, [()] * len(before)))
    assert len(set(placements(source, mesh, partial=True))) == len(list(placements(source, mesh, partial=True)))
    for placement in placements(source, mesh, partial=False):
        found = digits(before, placement, mesh)
        assert found is not None
        assert placement_of(found, placement) == placement  # one way to write it
        there = through_view(found, groups, after)
        if there is None:
            continue
        moved = placement_of(there, placement)
        assert digits(after, moved, mesh) == there
        if is_offered(result, moved, mesh):
            for device in devices(mesh):
                assert sorted(part(arange(before), placement, mesh, device)) == sorted(part(seen, moved, mesh, device))


@given(before=SIZES, data=st.data(), mesh=MESHES)
def test_reshapes(before: tuple[int, ...], data: st.DataObject, mesh: tuple[int, ...]) -> None:
    total = math.prod(before)
    after: list[int] = []
    while total > 1 and len(after) < 3:
        after.append(data.draw(st.sampled_from([one for one in range(1, total + 1) if total % one == 0])))
        total //= after[-1]
    after.append(total)
    check_view(before, tuple(after), groups_of_shapes(before, tuple(after)), mesh, arange(before).reshape(after))


@given(before=SIZES, data=st.data(), mesh=MESHES)
def test_transposes(before: tuple[int, ...], data: st.DataObject, mesh: tuple[int, ...]) -> None:
    order = data.draw(st.permutations(range(len(before))))
    groups = tuple(((source,), (at,)) for at, source in enumerate(order))
    check_view(before, tuple(before[one] for one in order), groups, mesh, arange(before).transpose(order))


@given(outer=st.sampled_from([2, 4, 6]), inner=st.sampled_from([2, 4, 6]), rest=st.sampled_from([1, 3, 4]), mesh=MESHES)
def test_every_split_of_merged_dimensions_has_one_of_the_merged_one(
    outer: int, inner: int, rest: int, mesh: tuple[int, ...]
) -> None:
    before, after = (outer, inner, rest), (outer * inner, rest)
    merge = groups_of_shapes(before, after)
    tensor = blocked(after, cuts_behind(merge, before, after, [()] * 3))
    seen = set()
    for placement in placements(WholeTensor(shape=before, item_bytes=1), mesh, partial=False):
        found = digits(before, placement, mesh)
        assert found is not None
        merged = through_view(found, merge, after)
        assert merged is not None
        moved = placement_of(merged, placement)
        assert is_offered(tensor, moved, mesh)
        seen.add(moved)
    assert len(seen) == len(list(placements(WholeTensor(shape=before, item_bytes=1), mesh, partial=False)))


@given(shape=SIZES, mesh=MESHES, data=st.data())
def test_parts_share_a_tensor_out(shape: tuple[int, ...], mesh: tuple[int, ...], data: st.DataObject) -> None:
    cuts = [{cut for cut in range(2, size) if size % cut == 0} for size in shape]
    every = list(placements(blocked(shape, cuts), mesh, partial=False))
    placement = data.draw(st.sampled_from(every))
    owned = [part(arange(shape), placement, mesh, device) for device in devices(mesh)]
    copies = math.prod(size for size, where in zip(mesh, placement, strict=True) if where == REPLICATE)
    assert sorted(itertools.chain(*owned)) == sorted(copies * list(range(math.prod(shape))))
    assert len({len(own) for own in owned}) == 1


@given(shape=SIZES, mesh=MESHES, data=st.data())
def test_an_axis_that_splits_nothing_leaves_the_others(
    shape: tuple[int, ...], mesh: tuple[int, ...], data: st.DataObject
) -> None:
    placement = data.draw(
        st.sampled_from(list(placements(WholeTensor(shape=shape, item_bytes=1), mesh, partial=False)))
    )
    axis = data.draw(st.sampled_from(range(len(mesh))))
    found = digits(shape, placement, mesh)
    assert found is not None
    rest = without_axis(found, axis)
    assert [math.prod(size for size, _ in row) for row in rest] == list(shape)
    assert {one for row in rest for _, one in row} - {WHOLE} == {one for row in found for _, one in row} - {WHOLE, axis}


def test_views_that_cut_through_a_split_are_refused() -> None:
    found = digits((6,), (0,), (3,))
    assert found is not None
    assert through_view(found, groups_of_shapes((6,), (2, 3)), (2, 3)) is None
    assert through_view(found, (((0,), ()),), ()) is None  # nor can a split dimension be dropped
