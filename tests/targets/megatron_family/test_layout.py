"""Megatron-LM's layout strings: parsed as Megatron-LM does, written short, and refused with their place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model.plan import cells
from evenflow.targets.megatron_family.layout import format_layout, parse_layout

PUBLISHED = {
    "Et|(tt|)*30mL": (32, 61),
    "Et*4|(t*4|)*14tmL": (16, 61),
    "Et*2|(tt|)*5t|tmL": (8, 14),
    "Et*3|(tt|)*29,m|L": (32, 61),
    "Ettt|(tt|)*29,m|L": (32, 61),
    "E|(tt|)*2,(t|)*4,mL": (8, 8),
    "Et*5|t*5|t*6|t*6|t*6|t*5|t*5|t*5mL": (8, 43),
    "E(|tt)*30,|mL": (32, 60),
    "Et*7|t*7mL": (2, 14),
    "Et|(tt|)*6,L": (8, 13),
    "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL": (40, 80),
}
"""Layouts of recipes and documentation: stages and transformer layers."""


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """Layers ``[chunk][rank]``, of any pipeline, with empty stages and equal neighbours."""
    ranks, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    count = st.integers(0, 12) | st.just(4)
    return cells(draw(st.lists(st.lists(count, min_size=ranks, max_size=ranks), min_size=chunks, max_size=chunks)))


def megatron(layout: str) -> list[str]:
    """Stages in letters: the two substitutions that the grammar is defined by, one after the other."""
    layout = layout.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        layout = re.sub(pattern, lambda found: found[1] * int(found[2]), layout)
    return layout.split("|")


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_layouts(text: str) -> None:
    layout = parse_layout(text, place="layout")
    assert (len(layout.layers), sum(layout.layers)) == PUBLISHED[text]
    assert layout.mtp_layers == tuple(stage.count("m") for stage in megatron(text))


@given(tables(), st.integers(0, 4))
def test_a_table_reads_back_from_its_layout(table: tuple[tuple[int, ...], ...], mtp_layers: int) -> None:
    text = format_layout(table, mtp_layers=mtp_layers)
    layout = parse_layout(text, place="layout")
    assert layout.cells(len(table[0]), place="layout") == table
    assert sum(layout.mtp_layers) == layout.mtp_layers[-1] == mtp_layers
    assert [stage.count("t") for stage in megatron(text)] == [count for row in table for count in row]


@given(tables())
def test_a_layout_is_never_longer_than_its_stages(table: tuple[tuple[int, ...], ...]) -> None:
    stages = [("t" * count if count < 3 else f"t*{count}") for row in table for count in row]
    assert len(format_layout(table).replace(",", "")) <= len("E" + "|".join(stages) + "L")


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (((1,),), "EtL"),
        (((2, 2), (2, 2)), "Ett|tt|tt|ttL"),
        (((3, 4, 4, 4), (4, 4, 4, 1)), "Et*3|(t*4|)*6,tL"),
        (((0, 0, 0, 0, 0, 0, 3, 0),), "E||*5t*3|L"),
        (((1, 1, 1, 1), (4, 4, 4, 4)), "Et|t|t|t|(t*4|)*3,t*4L"),
    ],
)
def test_layouts_as_people_read_them(table: tuple[tuple[int, ...], ...], text: str) -> None:
    assert format_layout(table) == text


def test_layouts_as_lists() -> None:
    stages = [["embedding", "decoder"], [], ["Decoder ", "decoder"], ["mtp", "loss"]]
    layout = parse_layout(stages, place="layout")
    assert layout.layers == (1, 0, 2, 0)
    assert layout.mtp_layers == (0, 0, 0, 1)
    assert layout.cells(2, place="layout") == ((1, 0), (2, 0))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("Et|t,x|tL", "layout, character 6 must be one of the letters E, t, m, L or a bar"),
        ("Et|((t|)*2t|)*3,L", "layout, character 4 must be"),
        ("Et |tL", "layout, character 3 must be"),
        ("Et|(t|tL", "layout, character 4 must be"),
        ("Et|()*2L", "layout, character 4 must be"),
        ("Et*|tL", "layout, character 3 must be"),
        ("Et|t*2*2L", "layout, character 7 must be"),
        ("", "layout must have E once, before all others"),
        ("t|tL", "layout must have E once, before all others"),
        ("Et|EtL", "layout must have E once, before all others"),
        ("E*2t|tL", "layout must have E once, before all others"),
        ("Et*3|(tt|)*29", "layout must have L once, behind all others"),
        ("Et|LtL", "layout must have L once, behind all others"),
        ("Etm|tL", "layout must have m behind every t"),
        ("Et|m|mL", "layout must have every m in one stage"),
        ("Et*999999999999999999999999|L", "layout must have at most 1,000,000 letters and bars"),
        ("Et*10000000|L", "layout must have at most 1,000,000 letters and bars"),
        ("E(" + "t*900000" * 3 + "|)*9,L", "layout must have at most 1,000,000 letters and bars"),
        ("Et*100001L", "layout must be an integer from 1 to 100,000, got 100001"),
        (["Et", "tL"], "layout must be a string such as Et|tt|tL, or a list of lists of names"),
        (None, "layout must be a string such as Et|tt|tL, or a list of lists of names"),
        ([["embedding", "encoder"], ["loss"]], "layout, stage 0 must be one of embedding, decoder, mtp, loss"),
        ([["embedding"], [3]], "layout, stage 1 must be one of embedding, decoder, mtp, loss, got 3"),
    ],
)
def test_what_is_no_layout(layout: object, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_layout(layout, place="layout")
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("layout", "ranks", "message"),
    [
        ("Et|t|tL", 2, "layout must have as many stages as 2 ranks, or a multiple of it, got 3"),
        ("Et|tm|L|", 2, "layout, stage 1 must have m in the last chunk of a rank"),
    ],
)
def test_stages_that_are_no_chunks(layout: str, ranks: int, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_layout(layout, place="layout").cells(ranks, place="layout")
    assert raised.value.message == message
