from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw import measured_svg
from evenflow.errors import InputError
from evenflow.simulate import Timeline
from tests.draw.cases import bars, by_class, by_id, parse, rect_box, simulation
from tests.thoroughness import examples


def slower(timeline: Timeline, factor: int) -> Timeline:
    return replace(
        timeline,
        start_ns=timeline.start_ns * factor,
        end_ns=timeline.end_ns * factor,
        makespan_ns=timeline.makespan_ns * factor,
    )


@settings(max_examples=examples(30))
@given(st.integers(1, 40), st.integers(1, 2), st.integers(1, 9), st.text())
def test_every_picture_is_well_formed(ranks: int, chunks: int, microbatches: int, title: str) -> None:
    timeline = simulation(ranks, chunks, microbatches).timeline
    parse(measured_svg(timeline, slower(timeline, 3), title=title))


def test_the_measured_row_stands_under_the_predicted_one_on_the_same_axis() -> None:
    timeline = simulation(2, 1, 3).timeline
    tree = parse(measured_svg(timeline, slower(timeline, 2), title="twice as slow"))
    plot = rect_box(by_id(tree, "timeline-plot"))
    rows = {}
    for name in ("predicted", "measured"):
        (forwards,) = by_class(by_id(tree, name), "forward-0")
        rows[name] = list(bars(forwards))
    assert len(rows["predicted"]) == len(rows["measured"]) == 6
    pitch = rows["measured"][0][2] - rows["predicted"][0][2]
    assert pitch > 0
    for (left, right, y), (late, later, below) in zip(rows["predicted"], rows["measured"], strict=True):
        assert below - y == pytest.approx(pitch)
        assert late - plot.left == pytest.approx(2 * (left - plot.left), abs=0.5)
        assert later - plot.left == pytest.approx(2 * (right - plot.left), abs=0.5)


def test_timelines_of_different_orders_are_refused() -> None:
    with pytest.raises(InputError, match="must have the order of the predicted one"):
        measured_svg(simulation(2, 1, 3).timeline, simulation(2, 1, 4).timeline, title="")
