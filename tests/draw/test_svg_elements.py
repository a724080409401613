import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from evenflow.draw.svg_elements import clean, fit_text, tenths, text_width


@given(st.text())
def test_any_text_becomes_xml_and_stays_itself_where_xml_can_hold_it(content: str) -> None:
    shown = ET.fromstring(f"<t>{clean(content)}</t>").text or ""
    assert len(shown) == len(content)
    assert all(one in (other, "\ufffd", " ") for one, other in zip(shown, content, strict=True))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_text_survives_unchanged(content: str) -> None:
    assert (ET.fromstring(f"<t>{clean(content)}</t>").text or "") == content


@given(st.text(), st.floats(40, 500))
def test_fitted_text_fits(content: str, width: float) -> None:
    fitted = fit_text(content, 12, width)
    assert text_width(fitted, 12) <= width
    assert fitted == content or fitted.endswith("…")


@given(st.integers(-10_000, 10**6))
def test_tenths(value: int) -> None:
    assert round(float(tenths(value)) * 10) == value
