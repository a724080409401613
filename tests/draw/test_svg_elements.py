import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.draw import svg_elements
from evenflow.draw.svg_elements import clean, document, fit_text, tenths, text, text_width


@given(st.text())
def test_any_text_becomes_xml_and_stays_itself_where_xml_can_hold_it(content: str) -> None:
    shown = ET.fromstring(f"<t>{clean(content)}</t>").text or ""
    assert len(shown) == len(content)
    assert all(one in (other, "\ufffd", " ") for one, other in zip(shown, content, strict=True))


@pytest.mark.parametrize("turning", ["\u202e", "\u2067", "\u200f"])
def test_no_name_turns_the_text_of_a_picture_around(turning: str) -> None:
    name = f"llama{turning}, best"
    drawn = document(width=9, height=9, label=name, parts=[text(0, 0, name, size=12)])
    assert turning not in drawn
    assert drawn.count("llama\ufffd, best") == 2


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_text_survives_unchanged(content: str) -> None:
    assert (ET.fromstring(f"<t>{clean(content)}</t>").text or "") == content


@given(st.text(), st.floats(40, 500))
def test_fitted_text_fits(content: str, width: float) -> None:
    fitted = fit_text(content, 12, width)
    assert text_width(fitted, 12) <= width
    assert fitted == content or fitted.endswith("…")


def test_a_text_is_cut_in_time_that_grows_with_what_is_shown_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def count(character: str) -> float:
        nonlocal measured
        measured += 1
        return 0.3

    monkeypatch.setattr(svg_elements, "_character_width", count)
    counts = []
    for length in (2_000, 100_000):
        measured = 0
        assert fit_text("i" * length, 12, 300).endswith("…")
        counts.append(measured)
    assert counts[0] == counts[1]


@given(st.text(st.sampled_from("il.M阶 "), max_size=200), st.floats(0, 300), st.booleans())
def test_a_text_is_cut_only_where_it_must_be(content: str, width: float, bold: bool) -> None:
    fitted = fit_text(content, 12, width, bold=bold)
    if text_width(content, 12, bold=bold) <= width:
        assert fitted == content
    else:
        longer = content[: len(fitted)]
        assert not content or text_width(longer + "…", 12, bold=bold) > width or longer.endswith(" ")


@given(st.integers(-10_000, 10**6))
def test_tenths(value: int) -> None:
    assert round(float(tenths(value)) * 10) == value
