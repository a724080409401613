"""Redistribution: costs worked out by hand, and every collective checked on the pieces that devices hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.placement import PARTIAL, REPLICATE, Placement, WholeTensor, is_even
from evenflow_torch.auto.sharding.redistribution import RedistributionTable
from tests.cluster.splits.parts import arange, devices, part

FAST = MeshAxis(size=4, bandwidth_bytes_per_s=10**9, latency_ns=7)
SLOW = MeshAxis(size=2, bandwidth_bytes_per_s=10**8, latency_ns=100)


def cost(tensor: WholeTensor, source: Placement, target: Placement, *axes: MeshAxis) -> float:
    table = RedistributionTable(mesh=Mesh(axes=axes)).of(tensor)
    return float(table.costs[table.index[source], table.index[target]])


@pytest.mark.parametrize(
    ("source", "target", "ns"),
    [
        (0, REPLICATE, 4 * 7 + 3000),  # all-gather: 3/4 of 4000 bytes in three messages, after a first latency
        (PARTIAL, 0, 4 * 7 + 3000),  # reduce-scatter
        (PARTIAL, REPLICATE, 7 * 7 + 6000),  # all-reduce: there and back
        (0, 1, 2 * 7 + 750),  # all-to-all: 3/4 of the 1000 bytes that a device has, at once
        (REPLICATE, 1, 0),  # each device keeps its part
        (REPLICATE, PARTIAL, 0),
        (1, 1, 0),
    ],
)
def test_collectives_of_four_devices(source: int, target: int, ns: int) -> None:
    assert cost(WholeTensor(shape=(4, 250 * 4), item_bytes=1), (source,), (target,), FAST) == ns


def test_parts_do_not_become_sums_for_nothing() -> None:
    assert cost(WholeTensor(shape=(4, 4), item_bytes=1), (0,), (PARTIAL,), FAST) > 0


def test_two_axes_move_less_when_the_other_is_split() -> None:
    tensor = WholeTensor(shape=(8, 1000), item_bytes=1)
    assert cost(tensor, (PARTIAL, 0), (REPLICATE, 0), SLOW, FAST) == 3 * 100 + 2 * 1000 * 10
    # Whole tensors are reduced over the slow axis a quarter each, and the quarters gathered over the fast one.
    quarters, gather = 3 * 100 + 2 * 2000 * 10 // 2, 4 * 7 + 8000 * 3 // 4
    assert cost(tensor, (PARTIAL, REPLICATE), (REPLICATE, REPLICATE), SLOW, FAST) == quarters + gather


def test_outer_split_opens_only_after_the_inner_one() -> None:
    tensor = WholeTensor(shape=(8, 1000), item_bytes=1)
    # Both axes split dimension 0. To gather along the outer axis alone the inner one gathers first, and splits again.
    inner = 4 * 7 + 4000 * 3 // 4
    outer = 2 * 100 + 8000 * 10 // 2
    moved = 2 * 7 + 1000 * 3 // 4  # or it moves to dimension 1, where it is out of the way, and back
    there = 2 * 100 + 2000 * 10 // 2
    back = 2 * 7 + 2000 * 3 // 4
    assert cost(tensor, (0, 0), (REPLICATE, 0), SLOW, FAST) == min(inner + outer, moved + there + back)


def test_one_device_is_free() -> None:
    alone = MeshAxis(size=1, bandwidth_bytes_per_s=1, latency_ns=1000)
    assert collective_ns(alone, Collective.ALL_REDUCE, 10**6) == 0


@st.composite
def tensors(draw: st.DrawFn, sizes: tuple[int, ...] = (1, 2, 4, 6, 8)) -> WholeTensor:
    """Tensors of which some dimensions may be split in blocks."""
    shape = tuple(draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=3)))
    cuts = ([cut for cut in range(2, size) if size % cut == 0] for size in shape)
    blocks = tuple(tuple(draw(st.sets(st.sampled_from(row)))) if row else () for row in cuts)
    return WholeTensor(shape=shape, item_bytes=4, blocks=blocks)


@given(tensor=tensors(), mesh_shape=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=2))
def test_collectives_have_what_they_need(tensor: WholeTensor, mesh_shape: list[int]) -> None:
    axes = tuple(MeshAxis(size=size, bandwidth_bytes_per_s=10**9, latency_ns=1) for size in mesh_shape)
    table = RedistributionTable(mesh=Mesh(axes=axes)).of(tensor)
    assert np.isfinite(table.costs).all()
    assert (table.costs >= 0).all()
    sizes = tuple(mesh_shape)
    indices = arange(tensor.shape)
    held = [{device: set(part(indices, one, sizes, device)) for device in devices(sizes)} for one in table.placements]
    for (i, j), step in table.steps.items():
        assert is_even(tensor, table.placements[j], sizes)
        for device in devices(sizes):
            group = [(*device[: step.axis], k, *device[step.axis + 1 :]) for k in range(sizes[step.axis])]
            there = [held[i][one] for one in group]
            wanted = held[j][device]
            if step.collective is None:
                assert wanted <= held[i][device]
            else:
                assert wanted <= set().union(*there)
            if step.collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER):
                assert all(wanted <= one for one in there)  # everyone has a share of every element


@given(tensor=tensors((2, 4, 8)), data=st.data())
def test_route_adds_up_and_shortcuts_do_not_exist(tensor: WholeTensor, data: st.DataObject) -> None:
    table = RedistributionTable(mesh=Mesh(axes=(SLOW, FAST))).of(tensor)
    choose = st.sampled_from(range(len(table.placements)))
    i, j, k = data.draw(choose), data.draw(choose), data.draw(choose)
    assert table.costs[i, j] <= table.costs[i, k] + table.costs[k, j]
    route = table.route(table.placements[i], table.placements[j])
    assert sum(step.time_ns for step in route) == table.costs[i, j]
