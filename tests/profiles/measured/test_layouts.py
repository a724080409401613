"""Layers of every cell of a measured run, from what its layout states."""

from dataclasses import replace

import pytest

from evenflow.profiles.measured.layouts import layout_of, usual_layout
from tests.profiles.measured.rows import make_run

RUN = make_run()


@pytest.mark.parametrize(
    ("text", "ranks", "chunks", "layers", "expected"),
    [
        ("Et*3|(tt|)*6mL", 2, 4, 15, ((3, 2), (2, 2), (2, 2), (2, 0))),
        ("Et*2|(tt|)*5t|tmL", 4, 2, 14, ((2, 2, 2, 2), (2, 2, 1, 1))),
        ("Et*7|t*7mL", 2, 1, 14, ((7, 7),)),
        ("Et*2|(t*2|)*2,t*3|tL", 5, 1, 10, ((2, 2, 2, 3, 1),)),
        ("first=2 last=2", 4, 1, 12, ((2, 4, 4, 2),)),
        ("uneven: the last stage has 1 block, the others 7 (stated)", 12, 1, 78, ((*[7] * 11, 1),)),
        ("embedding and loss count as one layer each", 4, 1, 14, ((3, 4, 4, 3),)),
        ("", 4, 1, 12, ()),
        ("", 4, 1, 14, ((4, 4, 3, 3),)),
        ("Et|tL", 2, 1, 14, ()),
        ("Et*99999", 2, 1, 14, ()),
    ],
)
def test_layouts(text: str, ranks: int, chunks: int, layers: int, expected: tuple[tuple[int, ...], ...]) -> None:
    run = replace(RUN, layout=text, pp=ranks, vpp=chunks, layers=layers)
    assert layout_of(run) == expected


@pytest.mark.parametrize(
    ("layers", "further", "stages", "expected"),
    [
        (94, 0, (8, 1), (11, *[12] * 6, 11)),  # Qwen3 235B
        (61, 1, (16, 2), (1, *[2] * 30, 0)),  # DeepSeek-V3
        (61, 0, (16, 1), (*[3] * 2, *[4] * 13, 3)),  # Kimi K2
        (61, 1, (4, 1), (15, 16, 16, 14)),
    ],
)
def test_layers_of_mixtures_that_cannot_be_dealt_evenly_leave_room_for_the_loss(
    layers: int, further: int, stages: tuple[int, int], expected: tuple[int, ...]
) -> None:
    ranks, chunks = stages
    run = replace(RUN, experts=8, layers=layers, mtp_layers=further, pp=ranks, vpp=chunks)
    cells = layout_of(replace(run, layout=usual_layout(run)))
    assert tuple(count for chunk in cells for count in chunk) == expected
    assert usual_layout(replace(run, experts=0)) == usual_layout(replace(run, layers=64)) == ""
