"""Submeshes tile every cluster, and clusters that make no sense are refused."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.cluster import Link, Submesh, assign, parse_mesh, submeshes
from evenflow.errors import InputError
from tests.cluster.clusters import mesh


@given(data=st.data())
def test_any_choice_of_submeshes_can_be_laid_out(data: st.DataObject) -> None:
    cluster = mesh(
        data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 18, 30, 36, 72, 104]))
    )
    left, shapes = cluster.num_devices, []
    while left:
        shapes.append(data.draw(st.sampled_from([one for one in submeshes(cluster) if one.num_devices <= left])))
        left -= shapes[-1].num_devices
    places = assign(cluster, shapes)
    assert sorted(device for place in places for device in place) == list(range(cluster.num_devices))
    for shape, place in zip(shapes, places, strict=True):
        assert len(place) == shape.num_devices
        assert len({cluster.node_of(device) for device in place}) == shape.num_nodes


def without_a_full_node(sizes: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    """Every choice of sizes (1 among them) for two or more full nodes of which no part fills one: counts by size."""
    first, *others = sorted(sizes, reverse=True)
    waiting = [(first, tuple(others), 1, 0, ())]
    seen = set()
    while waiting:
        size, rest, sums, total, counts = waiting.pop()
        if size == 1:
            ones = -total % width
            if ones < width - (sums.bit_length() - 1) and total + ones >= 2 * width:
                yield (*counts, ones)
            continue
        count = 0
        while not sums >> width & 1:
            key = (rest, sums, total)
            if key not in seen:
                seen.add(key)
                waiting.append((rest[0], rest[1:], sums, total, (*counts, count)))
            sums |= sums << size
            sums &= (2 << width) - 1
            total, count = total + size, count + 1


@pytest.mark.parametrize("width", [*range(2, 50), 64, 72, 80, 96, 100])
def test_some_stages_always_fill_a_node(width: int) -> None:
    """The premise of the layout, tried for every choice; stages of whole nodes do not matter."""
    sizes = [shape.num_devices for shape in submeshes(mesh(1, width))][:-1]
    assert not list(without_a_full_node(sizes, width))


def test_nodes_of_thirty_are_the_first_that_some_stages_cannot_fill() -> None:
    assert (1, 2, 4, 0, 0, 0, 1) in list(without_a_full_node([1, 2, 3, 5, 6, 10, 15], 30))
    assert [shape.num_devices for shape in submeshes(mesh(2, 30))] == [1, 2, 6, 30, 60]


@pytest.mark.parametrize(("width", "sizes"), [(6, [1, 2, 3, 6]), (12, [1, 2, 3, 4, 6, 12]), (1, [1]), (5, [1, 5])])
def test_every_divisor_of_a_node_is_a_submesh(width: int, sizes: list[int]) -> None:
    assert [shape.num_devices for shape in submeshes(mesh(1, width))] == sizes


def test_shapes_of_alpa() -> None:
    assert [str(shape) for shape in submeshes(mesh(4, 8))] == ["1x1", "1x2", "1x4", "1x8", "2x8", "3x8", "4x8"]
    sizes = [shape.num_devices for shape in submeshes(mesh(4, 8))]
    assert sizes == sorted(set(sizes))


def test_stages_stay_in_order_where_they_can() -> None:
    cluster = mesh(2, 4)
    assert assign(cluster, [Submesh(1, 2), Submesh(1, 2), Submesh(1, 4)]) == (range(2), range(2, 4), range(4, 8))
    # In order the pair would begin at device 1.
    assert assign(cluster, [Submesh(1, 1), Submesh(1, 2), Submesh(1, 4), Submesh(1, 1)]) == (
        range(6, 7),
        range(4, 6),
        range(4),
        range(7, 8),
    )


def test_only_submeshes_are_laid_out() -> None:
    with pytest.raises(ValueError, match="no submeshes"):
        assign(mesh(2, 4), [Submesh(1, 3), Submesh(1, 4), Submesh(1, 1)])
    with pytest.raises(ValueError, match="no submeshes"):
        assign(mesh(1, 2), [Submesh(1, 2), Submesh(1, 1)])


@pytest.mark.parametrize(
    ("sizes", "change", "words"),
    [
        ((0, 4), {}, "cluster, nodes must be at least 1, got 0"),
        ((4, 0), {}, "devices per node must"),
        ((2000, 2000), {}, "at most 1,000,000 devices"),
        ((2, 2), {"memory_bytes": 0}, "memory must be above zero"),
        ((2, 2), {"inter": Link(bytes_per_s=0)}, "inter-bandwidth must be above zero"),
        ((2, 2), {"intra": Link(bytes_per_s=200, latency_ns=-1)}, "intra-latency must be zero or more"),
        ((2, 2), {"inter": Link(bytes_per_s=201)}, "exchange the two bandwidths"),
        ((2, 2), {"peak_flops": 0.0}, "peak must be above zero and finite"),
    ],
)
def test_clusters_that_make_no_sense(sizes: tuple[int, int], change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        mesh(*sizes, **change)


def test_links() -> None:
    link = Link(bytes_per_s=3 * 10**9, latency_ns=7)
    assert [link.transfer_ns(size) for size in (0, 1, 3, 4)] == [0, 8, 8, 9]
    cluster = mesh(2, 2)
    assert cluster.link_between(0, 1) is cluster.intra
    assert cluster.link_between(1, 2) is cluster.inter


@pytest.mark.parametrize("text", ["8", "2x", "x4", "2x4x2", "0x4", "2x0", "-2x4", "2,4", ""])
def test_wrong_meshes(text: str) -> None:
    with pytest.raises(InputError, match="write for example 2x4"):
        parse_mesh(text)


def test_spaces_and_crosses_are_taken() -> None:
    assert parse_mesh(" 2 × 4 ") == (2, 4)
