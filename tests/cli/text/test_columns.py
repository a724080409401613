"""Tables as wide as what they are printed to: fewer columns where there is less room, and never a broken line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.text.display_width import display_width, output_width
from evenflow.cli.text.tables import aligned

HEADER = ["name", "first", "second", "why"]
ROWS = [["a", "1", "22", "it is so"], ["bb", "333", "4", "it was so before"]]


def test_a_file_has_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output_width() is None
    assert "left out" not in aligned(HEADER, [[*row[:3], "so " * 200] for row in ROWS], leaving=(1, 2))


@pytest.mark.parametrize("text", ["0", "-5", "wide", ""])
def test_no_number_of_columns_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("COLUMNS", text)
    assert output_width() is None


def test_columns_leave_in_their_order_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert aligned(HEADER, ROWS, left={0, 3}, leaving=(2, 1)).splitlines() == [
        "name  first  why",
        "a         1  it is so",
        "bb      333  it was so before",
        "(left out at 30 columns:",
        "second)",
    ]


def test_text_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    assert aligned(["n", "why"], [["1", "one reason and another reason"]], left={1}).splitlines() == [
        "n  why",
        "1  one reason and",
        "   another reason",
    ]


WORDS = st.text(alphabet="ab层 ", max_size=30)


@given(
    st.integers(20, 90),
    st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=5),
    st.permutations(range(1, 3)),
    st.booleans(),
)
def test_no_line_is_wider_where_the_first_column_has_room(
    width: int, rows: list[tuple[str, ...]], leaving: list[int], is_left: bool
) -> None:
    table = aligned(["n", "first", "last"], rows, left={0, 2} if is_left else {0}, leaving=leaving, most=width)
    first = max([1, *(display_width(" ".join(row[0].split(" "))) for row in rows)])
    lines = table.splitlines()
    if first <= width:
        assert max(map(display_width, lines)) <= width
    assert ("left out" in table) == (len(lines[0].split()) < 3)
