"""Layers of even work against all ways to cut a short row."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenflow_torch.models.exported.even_layers import Seam, even_layers

SEAM = st.builds(Seam, depth=st.integers(1, 3), size_bytes=st.integers(1, 5))


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[Seam], int]:
    flops = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    seams = draw(st.lists(SEAM, min_size=len(flops) - 1, max_size=len(flops) - 1))
    return flops, seams, draw(st.integers(1, len(flops)))


def heaviest(flops: list[int], layers: list[tuple[int, int]]) -> int:
    return max(sum(flops[first:end]) for first, end in layers)


def badness(flops: list[int], seams: list[Seam], layers: list[tuple[int, int]]) -> tuple[int, int, int]:
    cut = [seams[end - 1] for _, end in layers[:-1]]
    squares = sum(sum(flops[first:end]) ** 2 for first, end in layers)
    return sum(seam.size_bytes for seam in cut), sum(seam.depth for seam in cut), squares


@given(rows())
def test_no_cut_into_as_many_even_layers_is_crossed_by_less(row: tuple[list[int], list[Seam], int]) -> None:
    flops, seams, num_layers = row
    found = even_layers(flops, seams, num_layers=num_layers)
    every = [list(pairwise((0, *places, len(flops)))) for places in combinations(range(1, len(flops)), num_layers - 1)]
    assert found in every
    least = min(heaviest(flops, layers) for layers in every)
    even = [layers for layers in every if heaviest(flops, layers) <= 1.1 * least]
    assert found in even
    assert badness(flops, seams, found) == min(badness(flops, seams, layers) for layers in even)


def test_cuts_where_little_crosses() -> None:
    wide, narrow = Seam(depth=1, size_bytes=100), Seam(depth=1, size_bytes=10)
    assert even_layers([50, 4, 50], [wide, narrow], num_layers=2) == [(0, 2), (2, 3)]
    assert even_layers([50, 4, 50], [narrow, wide], num_layers=2) == [(0, 1), (1, 3)]
