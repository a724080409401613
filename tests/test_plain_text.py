"""Text of users as a terminal may show it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from evenflow.language import CHINESE, ENGLISH, _, speaking
from evenflow.plain_text import is_on_one_line, on_one_line, printable

ACTING = "\x00\x07\x08\x1b\r\x7f\x9b\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\ud800\U000e0041"
TEXT = st.text(st.characters() | st.sampled_from(ACTING + "\n\t"))


@given(TEXT)
def test_what_is_printable_acts_on_no_terminal(text: str) -> None:
    shown = printable(text)
    assert not set(shown) & set(ACTING)
    assert shown.count("\n") == text.count("\n")
    assert printable(shown) == shown
    shown.encode()


@given(TEXT)
def test_what_is_on_one_line_is_one_line(text: str) -> None:
    shown = on_one_line(text)
    assert len(f"a{shown}b".splitlines()) == 1
    assert (shown == text) == is_on_one_line(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_ordinary_text_stays(text: str) -> None:
    assert on_one_line(text) == printable(text) == text


@given(st.text(st.sampled_from("ab\x7f\x9f\u202e\u2028")))
def test_programs_read_the_same_value_in_json_that_was_printed(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False)
    assert json.loads(printable(written)) == text


@given(TEXT, st.sampled_from([ENGLISH, CHINESE]))
def test_a_value_of_a_message_begins_no_line(text: str, language: str) -> None:
    with speaking(language):
        assert len(_("cannot read {file}: {reason}", file=text, reason=f"a{text}b").splitlines()) == 1
        assert "\n" not in _("must have the field {key!r}", key=text)
