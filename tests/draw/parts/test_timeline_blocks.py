import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw.page import BARS_WIDTH, PLOT_LEFT, PLOT_WIDTH
from evenflow.draw.parts.axes import TimeScale
from evenflow.draw.parts.timeline_blocks import MERGE_TENTHS, make_blocks
from evenflow.draw.plan_picture import timeline_svg
from evenflow.schedule import Op, parse_schedule
from evenflow.simulate import Simulation
from tests.draw.cases import bars, by_class, by_id, parse, simulation, words
from tests.thoroughness import examples

SIZES = [(1, 1, 1), (2, 1, 4), (4, 2, 9), (8, 2, 32), (16, 3, 64)]


def scale_of(drawn: Simulation) -> TimeScale:
    return TimeScale(left=PLOT_LEFT, width=PLOT_WIDTH, span_ns=drawn.makespan_ns)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("full", [0, 1])
def test_the_picture_covers_exactly_the_work_of_every_stage(size: tuple[int, int, int], full: int) -> None:
    drawn = simulation(*size, full=full)
    root = parse(timeline_svg(drawn, memory_limit_bytes=None, title="work"))
    ranks, chunks, microbatches = size
    per_ns = PLOT_WIDTH / drawn.makespan_ns
    for direction, stage_ns in (("forward", drawn.costs.forward_ns), ("backward", drawn.costs.backward_ns)):
        for chunk in range(chunks):
            (path,) = by_class(by_id(root, "timeline"), f"{direction}-{chunk}")
            lengths: dict[float, list[float]] = {}
            for left, right, y in bars(path):
                lengths.setdefault(y, []).append(right - left)
            assert len(lengths) == ranks
            for rank, y in enumerate(sorted(lengths)):
                expected = microbatches * stage_ns[chunk * ranks + rank] * per_ns
                assert len(lengths[y]) == microbatches
                assert sum(lengths[y]) == pytest.approx(expected, abs=0.1 * microbatches)


def test_recomputation_is_the_first_part_of_each_backward() -> None:
    drawn = simulation(4, 2, 9, per_cell=2, full=1)
    root = parse(timeline_svg(drawn, memory_limit_bytes=None, title="recompute"))
    (again,) = by_class(by_id(root, "timeline"), "recompute")
    backwards = [bar for path in by_class(by_id(root, "timeline"), "backward-") for bar in bars(path)]
    starts = {(round(left, 1), y): right for left, right, y in backwards}
    per_ns = PLOT_WIDTH / drawn.makespan_ns
    recomputed = list(bars(again))
    assert len(recomputed) == len(backwards) == 4 * 2 * 9
    for left, right, y in recomputed:
        assert right < starts[round(left, 1), y]
        assert right - left == pytest.approx(2_000_000 * per_ns, abs=0.11)


def test_split_backwards_have_their_own_colours() -> None:
    """Whole and split backwards of two stages on one rank; recomputation is in B and I, never in W."""
    order = parse_schedule("0F0,0F1,1F0,1F1,1B1,1I0,0I1,0B0,0W1,1W0\n", name="mixed")
    drawn = simulation(1, 2, 2, schedule=order)
    root = parse(timeline_svg(drawn, memory_limit_bytes=None, title="split"))
    timeline = by_id(root, "timeline")
    per_ns = PLOT_WIDTH / drawn.makespan_ns
    weight_ns = drawn.costs.weight_ns
    for name, stage_ns in (
        ("backward", drawn.costs.backward_ns),
        ("input-gradient", drawn.costs.backward_ns - weight_ns),
        ("weight-gradient", weight_ns),
    ):
        for chunk in range(2):
            (path,) = by_class(timeline, f"{name}-{chunk}")
            ((left, right, _),) = bars(path)
            assert right - left == pytest.approx(stage_ns[chunk] * per_ns, abs=0.11)
    (again,) = by_class(timeline, "recompute")
    assert len(list(bars(again))) == 4
    widths = [float(element.get("width", "0")) for element in by_id(root, "busy") if element.get("fill") != "none"]
    assert sum(widths) == pytest.approx(BARS_WIDTH, abs=0.5)  # the only rank is never idle
    said = words(root)
    assert {"forward, chunk", "backward, chunk", "input gradient, chunk", "weight gradient, chunk"} <= set(said)


def test_no_recomputation_no_path() -> None:
    svg = timeline_svg(simulation(4, 1, 8, full=0), memory_limit_bytes=None, title="plain")
    assert not by_class(parse(svg), "recompute")
    assert "recompute, inside" not in svg


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 40), st.integers(1, 3))
def test_blocks_of_a_row_do_not_overlap_and_span_the_same_time(
    ranks: int, chunks: int, microbatches: int, splits: int
) -> None:
    drawn = simulation(ranks, chunks, microbatches, splits=splits)
    scale = scale_of(drawn)
    blocks = make_blocks(drawn, scale)
    same_row = np.diff(blocks.ranks) == 0
    assert (blocks.right[:-1] <= blocks.left[1:])[same_row].all()
    assert (blocks.left <= blocks.split).all()
    assert (blocks.split <= blocks.right).all()
    for rank in range(ranks):
        row = blocks.ranks == rank
        mine = drawn.timeline.schedule.ranks == rank
        assert blocks.left[row].min() == scale.tenth(int(drawn.timeline.start_ns[mine].min()))
        assert blocks.right[row].max() == scale.tenth(int(drawn.timeline.end_ns[mine].max()))


def test_blocks_too_short_to_see_are_merged() -> None:
    microbatches = 6000
    drawn = simulation(2, 1, microbatches)
    blocks = make_blocks(drawn, scale_of(drawn))
    assert blocks.is_merged
    few = simulation(2, 1, 4)
    assert not make_blocks(few, scale_of(few)).is_merged
    assert len(blocks.left) <= 2 * (10 * PLOT_WIDTH / MERGE_TENTHS + 1) < drawn.timeline.schedule.num_actions
    for rank in range(2):
        row = blocks.ranks == rank
        length = int((blocks.right[row] - blocks.left[row]).sum())
        busy = 10 * PLOT_WIDTH * drawn.timeline.busy_ns[rank] / drawn.makespan_ns
        assert length >= 0.95 * busy  # a bubble narrower than the merging width may be swallowed, work never


def test_a_merged_block_has_the_colour_of_the_longest_action() -> None:
    drawn = simulation(1, 1, 4000, full=0)
    scale = TimeScale(left=0, width=1000, span_ns=drawn.makespan_ns)
    blocks = make_blocks(drawn, scale)
    backward_ns, forward_ns = drawn.costs.backward_ns[0], drawn.costs.forward_ns[0]
    assert backward_ns > forward_ns
    assert np.mean(blocks.classes == Op.B) > 0.6
