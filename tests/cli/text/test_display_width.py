"""Text in columns and lines, where a Chinese character fills two cells."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.text.display_width import display_width, padded, wrapped


def test_width() -> None:
    assert [display_width(text) for text in ("", "ms", "阶段", "（8）")] == [0, 2, 4, 5]


def test_padding_reaches_the_same_column_in_both_languages() -> None:
    assert padded("层数", 6) + "|" == "层数  |"
    assert padded("层数", 6, left=False) + "|" == "  层数|"


def test_words_and_their_punctuation_stay_together() -> None:
    assert wrapped("上限（--memory）之内，没有更短的方案。", 16) == ["上限（--memory）", "之内，没有更短的", "方案。"]
    assert wrapped("上限。  [默认：无]", 8) == ["上限。", "[默认：", "无]"]


@given(st.text(alphabet="ab 层数，。（）-"), st.integers(8, 40))
def test_wrapping_loses_nothing_but_space(text: str, width: int) -> None:
    assert "".join("".join(wrapped(text, width)).split()) == "".join(text.split())


@given(st.text(alphabet="层数时间"), st.integers(2, 40))
def test_lines_are_within_the_width(text: str, width: int) -> None:
    assert all(display_width(line) <= width for line in wrapped(text, width))
