import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw import comparison_svg
from evenflow.draw.palette import LIMIT
from evenflow.errors import InputError
from tests.draw.cases import SVG, bars, by_class, by_id, parse, rect_box, simulation, text_box
from tests.paths import GOLDEN
from tests.thoroughness import examples

GIGABYTE = 2**30


def test_golden_picture() -> None:
    """Checked by eye. After a wanted change, look at the new picture before it replaces the old one."""
    plans = [
        ("recommended", simulation(2, 2, 4, per_cell=2, full=1)),
        ("naive, no recompute", simulation(2, 2, 4, per_cell=2, full=0)),
        ("manual, one chunk", simulation(2, 1, 4, per_cell=4, full=4)),
    ]
    svg = comparison_svg(plans, memory_limit_bytes=7 * GIGABYTE)
    assert svg == (GOLDEN / "comparison.svg").read_text(encoding="utf-8")


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.text(), st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.booleans()), min_size=1,
             max_size=4),
    st.none() | st.integers(1, 40),
)  # fmt: skip
def test_every_comparison_is_well_formed(plans: list[tuple[str, int, int, int, bool]], limit: int | None) -> None:
    drawn = [
        (name, simulation(ranks, chunks, microbatches, has_memory=memory))
        for name, ranks, chunks, microbatches, memory in plans
    ]
    limit_bytes = None if limit is None else limit * GIGABYTE
    svg = comparison_svg(drawn, memory_limit_bytes=limit_bytes)
    root = parse(svg)
    assert all(by_id(root, f"plan-{index}") is not None for index in range(len(plans)))
    known = sum(memory for *_, memory in plans)
    assert len(by_class(root, "limit")) == (known if limit else 0)
    assert svg == comparison_svg(drawn, memory_limit_bytes=limit_bytes)


def test_all_plans_share_one_time_axis() -> None:
    drawn = [("long", simulation(4, 1, 16)), ("short", simulation(4, 1, 5)), ("chunks", simulation(2, 3, 8))]
    root = parse(comparison_svg(drawn, memory_limit_bytes=None))
    pixels_per_ns = set()
    for index, (_, one) in enumerate(drawn):
        blocks = [bar for path in by_class(by_id(root, f"plan-{index}"), "backward") for bar in bars(path)]
        end = max(right for _, right, _ in blocks)
        start = min(left for path in by_class(by_id(root, f"plan-{index}"), "forward") for left, _, _ in bars(path))
        pixels_per_ns.add(round((end - start) / one.makespan_ns * 1e6, 2))
    assert max(pixels_per_ns) - min(pixels_per_ns) <= 0.02


def test_only_plans_over_the_limit_are_red_and_the_shortest_that_fits_is_the_reference() -> None:
    drawn = [
        ("fast but too big", simulation(2, 1, 8, per_cell=4, full=0)),
        ("fits", simulation(2, 1, 8, per_cell=4, full=2)),
        ("fits, slower", simulation(2, 1, 8, per_cell=4, full=4)),
    ]
    peaks = [max(one.peak_memory_bytes) for _, one in drawn]
    assert peaks[0] > peaks[1] > peaks[2]
    root = parse(comparison_svg(drawn, memory_limit_bytes=peaks[1]))
    headings = []
    for index in range(3):
        heading = next(element for element in by_id(root, f"plan-{index}").iter(f"{SVG}text") if len(element))
        headings.append("".join(heading.itertext()))
        assert (heading[-1].get("fill") == LIMIT) == (index == 0)
    changes = [re.search(r"\(([+−])[\d.]+ %\)", heading) for heading in headings]
    assert changes[0] is not None
    assert changes[0][1] == "−"
    assert changes[1] is None
    assert changes[2] is not None
    assert changes[2][1] == "+"
    assert "over the limit" in headings[0]


def test_the_legend_is_above_the_panels() -> None:
    drawn = [("a <&> b", simulation(4, 2, 8)), ("b", simulation(4, 1, 8))]
    root = parse(comparison_svg(drawn, memory_limit_bytes=GIGABYTE))
    boxes = [
        text_box(element) if element.tag.endswith("text") else rect_box(element)
        for element in by_id(root, "legend")
        if not element.tag.endswith("path")
    ]
    first = min(float(element.get("y", "inf")) for element in by_id(root, "plan-0").iter() if element.get("y"))
    assert max(box.bottom for box in boxes) < first - 12


def test_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="must be at least one"):
        comparison_svg([], memory_limit_bytes=None)
