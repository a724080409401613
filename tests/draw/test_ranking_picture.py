import re
import xml.etree.ElementTree as ET
from dataclasses import replace

from evenflow.draw.page import BARS_LEFT, BARS_WIDTH, WIDTH
from evenflow.draw.ranking_picture import ranking_svg
from evenflow.language import CHINESE, speaking
from tests.tune.rankings import ranking

SVG = "{http://www.w3.org/2000/svg}"


def rows_of(text: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(text).iter(f"{SVG}g") if re.fullmatch(r"row-\d+", one.get("id", ""))]


def bars(row: ET.Element) -> tuple[list[ET.Element], ET.Element]:
    """The bars of the parts, and that of memory."""
    rects = row.findall(f"{SVG}rect")
    return rects[:-1], rects[-1]


def test_bars_are_as_long_as_the_times_and_the_memory():
    tuned = ranking()
    rows = rows_of(ranking_svg(tuned, rows=10, title="small on 8"))
    assert len(rows) == 3
    lengths = [[float(bar.get("width")) for bar in bars(row)[0]] for row in rows]
    for (products, bubble), one in zip(lengths, tuned.ranked, strict=True):
        assert abs(products - 3 * bubble) < 0.3
        assert abs((products + bubble) / sum(lengths[0]) - one.step_ns / 400e6) < 0.001
    for row, gigabytes in zip(rows, (12.0, 15.5, 8.0), strict=True):
        assert abs(float(bars(row)[1].get("width")) - BARS_WIDTH * gigabytes / 16) < 0.1


def test_nothing_leaves_the_page_and_bars_leave_room_for_memory():
    for row in rows_of(ranking_svg(ranking(), rows=10, title="small on 8")):
        parts, memory = bars(row)
        assert all(float(bar.get("x")) + float(bar.get("width")) < BARS_LEFT for bar in parts)
        assert float(memory.get("x")) + float(memory.get("width")) < WIDTH


def test_as_many_rows_as_asked_for_and_the_same_in_every_language():
    text = ranking_svg(ranking(), rows=2, title="small <on> 8")
    assert len(rows_of(text)) == 2
    with speaking(CHINESE):
        assert ranking_svg(ranking(), rows=2, title="small <on> 8") == text
    assert "1. tensor 2, pipeline 4, data 1" in text
    assert "small &lt;on&gt; 8" in text


def test_names_of_parts_that_some_row_has_are_in_the_legend():
    text = ranking_svg(ranking(), rows=10, title="small")
    legend = next(one for one in ET.fromstring(text).iter(f"{SVG}g") if one.get("id") == "legend")
    assert [one.text for one in legend.findall(f"{SVG}text")] == ["Step", "matrix products", "bubble"]


def test_without_rows_there_is_a_page():
    empty = ranking_svg(replace(ranking(), ranked=()), rows=10, title="small")
    assert rows_of(empty) == []
