from pathlib import Path

import pytest

from evenflow.cli.shared.files.picture_files import check_page_file, check_picture_file, picture_content
from evenflow.errors import InputError
from tests.draw.png_files import NEEDS_FONTS, png_size, png_values


@NEEDS_FONTS
@pytest.mark.parametrize("name", ["plan.svg", "plan.SVG", "/dev/stdout", "plan", "plan.png", "plan.Png"])
def test_both_formats_and_files_without_a_suffix_are_taken(name: str) -> None:
    check_picture_file(Path(name), place="--svg")


def test_another_format_is_refused_with_a_name_to_take() -> None:
    with pytest.raises(InputError) as refused:
        check_picture_file(Path("out/plan.pdf"), place="--svg")
    assert str(refused.value) == (
        "--svg must end in .svg or .png, the formats of pictures, got 'out/plan.pdf'; "
        "name it plan.svg, which other programs turn into .pdf"
    )


@pytest.mark.parametrize("name", ["report.html", "a/report.HTM", "/dev/stdout", "report"])
def test_pages_are_html(name: str) -> None:
    check_page_file(Path(name), place="--html")


@pytest.mark.parametrize("name", ["report.png", "report.svg", "out/report.json"])
def test_a_page_of_another_format_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"--html must end in .html, the format of pages, got .*; name it report.html"):
        check_page_file(Path(name), place="--html")


def test_only_a_png_is_drawn() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="2" height="2"/>'
    assert picture_content(Path("a.svg"), svg) == svg
    drawn = picture_content(Path("a.PNG"), svg)
    assert isinstance(drawn, bytes)
    assert drawn.startswith(b"\x89PNG")


@NEEDS_FONTS
@pytest.mark.usefixtures("fake_solver")
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "tiny.json", "--ranks", 2, "--microbatches", 2),
        ("simulate", "tiny.json", "--ranks", 2, "--microbatches", 2, "--layers", "2,2"),
        ("schedule", "show", "zb-h1", "--ranks", 2, "--microbatches", 2),
    ],
)
def test_every_verb_draws_what_the_name_says(folder, evenflow, arguments) -> None:
    assert evenflow(*arguments, "--svg", "a.png").exit_code == 0
    assert png_size(folder / "a.png")[0] == 3200
    assert png_values((folder / "a.png").read_bytes()) > 100
    refused = evenflow(*arguments, "--svg", "a.jpg")
    assert refused.exit_code == 2
    assert "--svg must end in .svg or .png, the formats of pictures" in refused.stderr
