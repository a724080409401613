import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw import timeline_svg
from evenflow.draw.page import PLOT_LEFT, PLOT_WIDTH
from evenflow.draw.parts.axes import TimeScale
from evenflow.draw.parts.block_numbers import Numbering, choose_numbering, draw_numbers, numbering_words
from evenflow.draw.parts.timeline_blocks import Blocks, TimelineRows, make_blocks
from evenflow.draw.svg_elements import text_width
from evenflow.schedule import Op
from tests.draw.cases import by_class, parse, simulation
from tests.thoroughness import examples

Size = tuple[int, int, int]


def panel(size: Size, *, pitch: int = 22, splits: int = 1, full: int = 1) -> tuple[Blocks, TimelineRows]:
    drawn = simulation(*size, splits=splits, full=full)
    scale = TimeScale(left=PLOT_LEFT, width=PLOT_WIDTH, span_ns=drawn.makespan_ns)
    return make_blocks(drawn, scale), TimelineRows(top=0, pitch=pitch, count=size[0])


@pytest.mark.parametrize(
    ("size", "only_backwards", "every"),
    [
        ((2, 1, 2), False, 1),
        ((4, 1, 8), False, 1),
        ((8, 1, 32), True, 1),
        ((16, 4, 64), True, 8),
        ((16, 1, 256), True, 10),
    ],
)
def test_fewer_blocks_have_numbers_where_there_are_more(size: Size, only_backwards: bool, every: int) -> None:
    numbering = choose_numbering([panel(size)])
    assert numbering is not None
    assert (numbering.only_backwards, numbering.every) == (only_backwards, every)
    assert numbering.size >= 8


@settings(max_examples=examples(60), deadline=None)
@given(
    st.tuples(st.integers(1, 16), st.integers(1, 4), st.integers(1, 80)),
    st.sampled_from([12, 20, 36]),
    st.integers(1, 2),
)
def test_the_numbers_are_complete_and_none_covers_another(size: Size, pitch: int, splits: int) -> None:
    blocks, rows = panel(size, pitch=pitch, splits=splits)
    numbering = choose_numbering([(blocks, rows)])
    if numbering is None:
        return
    group = parse("".join(draw_numbers(blocks, rows, numbering)))
    font = float(group.get("font-size", "0"))
    assert 8 <= font <= rows.ink
    is_backward = blocks.classes // blocks.num_chunks != Op.F
    asked = blocks.units % (numbering.every * splits if numbering.every > 1 else 1) == 0
    expected = np.flatnonzero(asked & (is_backward | (not numbering.only_backwards)))
    assert len(group) == len(expected)
    ends: dict[int, float] = {}
    for label, index in zip(group, expected.tolist(), strict=True):
        x, rank, name = float(label.get("x", "0")), int(float(label.get("y", "0")) // pitch), label.text or ""
        unit = int(blocks.units[index])
        assert name == (str(unit) if splits == 1 else f"{unit // splits}.{unit % splits}")
        assert rank == blocks.ranks[index]
        half = text_width(name, font) / 2
        assert x - half >= ends.get(rank, -100)
        ends[rank] = x + half
        if numbering.every == 1:
            assert 2 * half <= (blocks.right[index] - blocks.split[index]) / 10


def test_several_panels_have_one_numbering() -> None:
    few, many = panel((2, 1, 4)), panel((8, 1, 32))
    assert choose_numbering([few, many]) == choose_numbering([many])


@pytest.mark.parametrize(("size", "pitch"), [((64, 1, 8), 9), ((2, 1, 6000), 36)])
def test_there_are_none_where_none_could_be_read(size: Size, pitch: int) -> None:
    blocks, rows = panel(size, pitch=pitch)
    numbering = choose_numbering([(blocks, rows)])
    assert numbering is None
    assert draw_numbers(blocks, rows, numbering) == []
    assert numbering_words(numbering) == "no numbers: the blocks are too small"


@pytest.mark.parametrize(
    ("numbering", "words"),
    [
        (Numbering(size=8), "numbers: microbatches"),
        (Numbering(size=8, only_backwards=True), "numbers: microbatches, on backwards"),
        (Numbering(size=8, only_backwards=True, every=2), "numbers: every 2nd microbatch, on backwards"),
        (Numbering(size=8, only_backwards=True, every=20), "numbers: every 20th microbatch, on backwards"),
    ],
)
def test_the_legend_says_which(numbering: Numbering, words: str) -> None:
    assert numbering_words(numbering) == words


def test_where_there_is_room_every_block_has_its_number() -> None:
    root = parse(timeline_svg(simulation(2, 1, 4), memory_limit_bytes=None, title="numbers"))
    (numbers,) = by_class(root, "microbatches")
    assert sorted(label.text or "" for label in numbers) == sorted(str(unit) for unit in range(4) for _ in range(4))


def test_parts_of_a_sequence_are_numbered_in_two_levels() -> None:
    root = parse(timeline_svg(simulation(2, 1, 2, splits=2), memory_limit_bytes=None, title="parts"))
    (numbers,) = by_class(root, "microbatches")
    assert {label.text for label in numbers} == {"0.0", "0.1", "1.0", "1.1"}
