import sys
from pathlib import Path

import pytest

from evenflow.draw import png, timeline_svg
from evenflow.draw.png import check_png, png_bytes
from evenflow.errors import InputError
from tests.draw.cases import parse, simulation
from tests.draw.png_files import NEEDS_FONTS, png_size, png_values


def test_a_plan_becomes_a_png_of_twice_the_size_that_is_not_blank(tmp_path: Path) -> None:
    svg = timeline_svg(simulation(2, 2, 4), memory_limit_bytes=None, title="example")
    drawn = png_bytes(svg)
    file = tmp_path / "plan.png"
    file.write_bytes(drawn)
    root = parse(svg)
    assert png_size(file) == (2 * int(root.get("width", "0")), 2 * int(root.get("height", "0")))
    assert png_values(drawn) > 100
    blank = png_bytes('<svg xmlns="http://www.w3.org/2000/svg" width="1600" height="600"/>')
    assert png_values(blank) < 5


@NEEDS_FONTS
def test_words_are_drawn() -> None:
    check_png(place="--svg")
    svg = timeline_svg(simulation(2, 1, 2), memory_limit_bytes=None, title="example")
    assert png_bytes(svg) != png_bytes(svg.replace(">example<", "><"))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(InputError) as refused:
        check_png(place="--svg")
    assert str(refused.value) == (
        "--svg must end in .svg where resvg is missing, which draws PNG files; pip install 'evenflow[png]'"
    )


def test_a_machine_without_fonts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "has_letters", lambda: False)
    with pytest.raises(InputError, match="on a machine without fonts"):
        check_png(place="--svg")
