import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw import timeline_svg
from evenflow.draw.page import WIDTH
from evenflow.model import Communication, EncoderWork, Halves, PassHalves, Plan
from evenflow.simulate import simulate
from evenflow.units import parse_memory
from tests.draw.cases import (
    MEGABYTE,
    by_class,
    by_id,
    network,
    parse,
    rect_box,
    simulation,
    text_box,
    text_boxes,
    words,
)
from tests.networks import equal_network
from tests.paths import GOLDEN
from tests.thoroughness import examples

SIZES = [(1, 1, 1), (2, 1, 4), (4, 2, 9), (8, 2, 32), (16, 3, 64), (40, 1, 60), (130, 1, 4)]


def test_golden_picture() -> None:
    """Checked by eye. After a wanted change, look at the new picture before it replaces the old one."""
    drawn = simulation(2, 2, 4)
    svg = timeline_svg(
        drawn, memory_limit_bytes=7 * 2**30, title="example on 2 ranks", certificate="within 1.00 % of optimal"
    )
    assert svg == (GOLDEN / "timeline.svg").read_text(encoding="utf-8")


@settings(max_examples=examples(80), deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 12)),
    st.integers(1, 2),
    st.booleans(),
    st.none() | st.integers(1, 80_000),
    st.text(),
    st.text(),
)
def test_every_picture_is_well_formed(
    size: tuple[int, int, int], splits: int, has_memory: bool, limit: int | None, title: str, certificate: str
) -> None:
    drawn = simulation(*size, splits=splits, has_memory=has_memory)
    limit_bytes = None if limit is None else limit * MEGABYTE
    svg = timeline_svg(drawn, memory_limit_bytes=limit_bytes, title=title, certificate=certificate)
    root = parse(svg)
    assert not re.search(r"[^a-z](nan|inf)[^a-z]", svg.split("</text>", 2)[-1])
    assert len({element.get("id") for element in root.iter() if element.get("id")}) == svg.count(' id="')
    lines = bool(by_class(root, "limit"))
    assert lines == (has_memory and limit is not None)
    assert svg == timeline_svg(drawn, memory_limit_bytes=limit_bytes, title=title, certificate=certificate)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("limit", ["5GB", "56GB", "1.5TB"])
def test_texts_stay_on_the_paper_and_off_each_other(size: tuple[int, int, int], limit: str) -> None:
    drawn = simulation(*size, communication=Communication(latency_ns=10_000))
    title = "an extraordinarily long name of a mixture of experts " * 8
    svg = timeline_svg(drawn, memory_limit_bytes=parse_memory(limit), title=title, certificate=title)
    root = parse(svg)
    boxes = text_boxes(root)
    height = float(root.get("height", "0"))
    for index, box in enumerate(boxes):
        assert box.left >= 0
        assert box.right <= WIDTH
        assert box.top >= 0
        assert box.bottom <= height
        for other in boxes[index + 1 :]:
            assert not box.meets(other), (box, other)


def test_what_pairs_hide_is_a_line_along_them() -> None:
    plain = network(6)
    parts = PassHalves(dispatch_ns=500_000, combine_ns=500_000)
    runs = tuple(
        replace(run, layer=replace(run.layer, halves=Halves(forward=parts, backward=parts))) for run in plain.runs
    )
    plan = Plan(schedule="1f1b-overlap", num_microbatches=5, layers=((2, 2, 2),), recompute={})
    drawn = simulate(replace(plain, runs=runs), plan)
    root = parse(timeline_svg(drawn, memory_limit_bytes=None, title="pairs"))
    (line,) = by_class(by_id(root, "timeline"), "hidden-exchange")
    lengths = [float(length) for length in re.findall(r"h([\d.]+)", line.get("d", ""))]
    plot = rect_box(by_id(root, "timeline-plot"))
    assert drawn.timeline.saved_ns is not None
    expected = drawn.timeline.saved_ns * (plot.right - plot.left) / drawn.makespan_ns
    assert lengths == pytest.approx(expected.tolist(), abs=0.2)
    assert "exchange hidden by a pair" in words(root)
    without = timeline_svg(simulate(plain, replace(plan, schedule="1f1b")), memory_limit_bytes=None, title="pairs")
    assert "hidden" not in without


@pytest.mark.parametrize("size", SIZES)
def test_legends_cover_nothing(size: tuple[int, int, int]) -> None:
    root = parse(timeline_svg(simulation(*size), memory_limit_bytes=2**30, title="legend"))
    plots = [rect_box(by_id(root, name)) for name in ("timeline-plot", "memory-plot")]
    for name in ("timeline-legend", "memory-legend"):
        for element in by_id(root, name):
            if element.tag.endswith("path"):
                continue
            box = text_box(element) if element.tag.endswith("text") else rect_box(element)
            assert not any(box.meets(plot) for plot in plots)
            assert box.right <= plots[0].right


def test_the_limit_is_a_labelled_line_in_every_strip() -> None:
    drawn = simulation(4, 1, 8)
    root = parse(timeline_svg(drawn, memory_limit_bytes=10 * 2**30, title="limit"))
    (line,) = by_class(by_id(root, "memory"), "limit")
    plot = rect_box(by_id(root, "memory-plot"))
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h", line.get("d", ""))]
    pitch = (plot.bottom - plot.top) / 4
    assert len(heights) == 4
    for rank, y in enumerate(heights):
        assert plot.top + rank * pitch < y < plot.top + (rank + 0.2) * pitch  # the limit is far above the memory
    assert "limit 10 GB" in words(root)
    assert words(root).count("10 GB") == 4


def test_memory_curves_reach_the_peak_and_return() -> None:
    drawn = simulation(3, 2, 7)
    limit = 30 * 2**30
    root = parse(timeline_svg(drawn, memory_limit_bytes=limit, title="peak"))
    (line,) = by_class(by_id(root, "memory"), "limit")
    limits = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h", line.get("d", ""))]
    for rank, peak in enumerate(drawn.peak_memory_bytes):
        data = by_id(root, f"memory-{rank}").get("d", "")
        floor = float(re.match(r"M[\d.]+ ([\d.]+)", data)[1])  # type: ignore[index]
        levels = [float(y) for y in re.findall(r"V([\d.]+)", data)]
        per_byte = (floor - limits[rank]) / limit
        assert floor - min(levels) == pytest.approx(peak * per_byte, abs=0.2)
        assert levels[-1] == floor
        assert floor - levels[-2] == pytest.approx(drawn.costs.static_bytes[rank] * per_byte, abs=0.2)


def test_what_is_over_the_limit_is_red_and_said() -> None:
    drawn = simulation(4, 1, 8, full=0)
    peaks = drawn.peak_memory_bytes
    limit = max(peaks) - 1
    svg = timeline_svg(drawn, memory_limit_bytes=limit, title="over")
    root = parse(svg)
    assert len(by_id(root, "above-limit")) == sum(peak > limit for peak in peaks)
    assert "over the limit by 1 B" in svg
    fitting = timeline_svg(drawn, memory_limit_bytes=max(peaks), title="over")
    assert "above-limit" not in fitting
    assert "over the limit" not in fitting


def test_without_memory_the_picture_says_so() -> None:
    svg = timeline_svg(simulation(2, 1, 4, has_memory=False), memory_limit_bytes=2**30, title="no memory")
    assert "gives no memory" in svg
    assert "memory-plot" not in svg


def test_title_and_certificate_are_text_not_markup() -> None:
    title = "a <b> & \"c\" 'd' 混合专家"
    root = parse(timeline_svg(simulation(1, 1, 1), memory_limit_bytes=None, title=title, certificate="<i>"))
    assert title in words(root)
    assert "<i>" in words(root)
    assert root.get("aria-label") == title


def test_the_title_block_has_the_plans_figures() -> None:
    drawn = simulation(4, 1, 8)
    root = parse(timeline_svg(drawn, memory_limit_bytes=20 * 2**30, title="figures"))
    shown = words(by_id(root, "header"))
    assert f"{drawn.makespan_ns / 1e6:,.1f} ms" in shown
    assert f"{100 * drawn.bubbles.real:.1f} %" in shown
    assert any(line.endswith(" of 20 GB") for line in shown)
    assert "4 ranks × 1 chunk × 8 microbatches, 8 layers" in shown


def test_a_large_picture_is_a_few_megabytes_at_most() -> None:
    svg = timeline_svg(simulation(64, 1, 256), memory_limit_bytes=56 * 2**30, title="large")
    assert len(svg) < 2_000_000


def test_what_encoders_do_in_bubbles_is_in_the_picture_and_its_legend():
    work = EncoderWork(parts=1, forward_ns=10, backward_ns=20, in_bubbles=True)
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 1, 1, 1),))
    alone = equal_network(4, forward_ns=10, backward_ns=20)
    plain, inside, apart = (
        timeline_svg(
            simulate(replace(alone, encoder_work=done), plan), memory_limit_bytes=None, title="", certificate=""
        )
        for done in (None, work, replace(work, in_bubbles=False))
    )
    for name in ('class="encoders-forward"', 'class="encoders-backward"', ">encoders' forward<"):
        assert [name in picture for picture in (plain, inside, apart)] == [False, True, False]
    assert [picture.count("with encoders") for picture in (plain, inside, apart)] == [0, 1, 1]
