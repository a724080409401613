"""Lines of logs as a terminal would show them."""

from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.logs.log_lines import LONGEST_LINE, log_lines


def test_colours_go_and_a_bar_that_writes_over_itself_is_several_lines() -> None:
    text = "\x1b[31mstep: 1\x1b[0m\n1/3\r2/3\r3/3\nlast"
    assert list(log_lines(BytesIO(text.encode()))) == ["step: 1\n", "1/3", "2/3", "3/3\n", "last"]


@given(st.binary(max_size=300))
def test_any_bytes_have_lines(data: bytes) -> None:
    lines = list(log_lines(BytesIO(data)))
    assert all("\x1b[0m" not in line and "\r" not in line for line in lines)


def test_a_line_without_an_end_is_cut() -> None:
    lines = [len(line) for line in log_lines(BytesIO(b"x" * (LONGEST_LINE + 5)))]
    assert lines == [LONGEST_LINE, 5]
