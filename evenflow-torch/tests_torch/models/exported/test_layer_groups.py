"""Layers of parts written as letters: equal letters are equal parts, small ones have no work."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow_torch.models.exported.even_layers import Seam
from evenflow_torch.models.exported.layer_groups import GraphPiece, Grouping, group_blocks, group_layers


def part(letter: str) -> GraphPiece:
    """Capitals have work; a dot has nothing to train."""
    return GraphPiece(key=letter, flops=100 * letter.isupper(), is_trained=letter != ".")


def grouped(text: str, *, most_even_layers: int = 8) -> Grouping:
    """Of parts between which a space is where modules end, and other places are inside of them."""
    letters = text.replace(" ", "")
    behind = {len(text[:place].replace(" ", "")) for place, letter in enumerate(text) if letter == " "}
    seams = [Seam(depth=1 if place in behind else 2, size_bytes=8) for place in range(1, len(letters))]
    return group_layers([part(letter) for letter in letters], seams, most_even_layers=most_even_layers)


def words(text: str, *, most_even_layers: int = 8) -> str:
    """Layers between bars; head and tail in brackets."""
    found = grouped(text, most_even_layers=most_even_layers)
    letters = text.replace(" ", "")
    ends = ["" if span is None else f"[{letters[slice(*span)]}]" for span in (found.head, found.tail)]
    return ends[0] + "|".join(letters[slice(*span)] for span in found.body) + ends[1]


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("e AM AM AM nO", "[e]AM|AM|AM[nO]"),  # a decoder: two parts a block
        ("e n AnMn AnMn .O", "[en]AnMn|AnMn[.O]"),  # norms behind: nAnM nAnM would begin inside of modules
        ("A. A. A.", "A.|A.|A."),  # blocks that end with something to compute
        ("S AA AA DB BB EC CC", "[S]A|A|A|A|D|B|B|B|E|C|C|C"),  # a convolutional net: more than one kind
        ("D M M D M M D M M", "D|M|M|D|M|M|D|M|M"),  # dense and expert layers take turns
        ("n L n L n L", "nL|nL|nL"),  # a flat row: a norm is too light for a layer of its own
        ("e AF AM AM AM", "[eAF]AM|AM|AM"),  # a first block that is different is not cut finer than the others
        ("A", "A"),
        (". A .", ".A."),
        ("e AA OPQR", "[e]A|A|O|P|Q|R"),  # the end is more work than a block
        ("AB CD EF", "A|B|C|D|E|F"),
    ],
)
def test_layers_of_models_as_they_are_built(text: str, layers: str) -> None:
    assert words(text) == layers


def test_so_many_layers_where_nothing_repeats() -> None:
    assert words("AB CD EF GH", most_even_layers=4) == "AB|CD|EF|GH"
    assert words("ABC DEF", most_even_layers=2) == "ABC|DEF"
    assert words("ABCDEF", most_even_layers=1) == "ABCDEF"
    parts = [GraphPiece(key=key, flops=1, is_trained=True) for key in range(100)]
    found = group_layers(parts, [Seam(depth=1, size_bytes=8)] * 99, most_even_layers=4)
    assert [end - first for first, end in found.body] == [25, 25, 25, 25]


@given(st.text(alphabet="AB. e", min_size=1, max_size=24), st.integers(1, 8))
def test_layers_are_all_of_the_model_and_have_something_to_train(text: str, most_even_layers: int) -> None:
    letters = text.replace(" ", "")
    if not letters.replace(".", ""):
        return
    found = grouped(text, most_even_layers=most_even_layers)
    spans = [span for span in (found.head, *found.body, found.tail) if span is not None]
    assert found.body
    assert (spans[0][0], spans[-1][1]) == (0, len(letters))
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert all(letters[slice(*span)].replace(".", "") for span in spans)


@given(st.text(alphabet="ABCe", min_size=1, max_size=4), st.integers(2, 6))
def test_a_repeated_block_is_as_many_layers(block: str, count: int) -> None:
    if block.upper() != block or len(set(block)) < len(block):
        return
    found = grouped(" ".join([block] * count))
    assert [end - first for first, end in found.body] == [len(block)] * count


def test_blocks_are_as_many_as_are_wanted_or_none() -> None:
    """Six blocks between two ends are six layers, or three of two blocks, but not four."""
    pieces = [
        GraphPiece(key=key, flops=flops, is_trained=True) for key, flops in (("e", 1), *[("b", 9)] * 6, ("o", 50))
    ]
    seams = [Seam(depth=1, size_bytes=8)] * 7
    assert group_blocks(pieces, seams, num_layers=6) == Grouping(
        head=(0, 1), body=tuple((place, place + 1) for place in range(1, 7)), tail=(7, 8)
    )
    three = group_blocks(pieces, seams, num_layers=3)
    assert three is not None
    assert three.body == ((1, 3), (3, 5), (5, 7))
    assert group_blocks(pieces, seams, num_layers=4) is None
