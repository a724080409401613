import re

import click
import pytest

from evenflow.cli.sapp.flags import parse, parser, says_nothing
from tests.paths import ROOT


def test_the_page_names_every_flag_and_no_other():
    page = (ROOT / "docs" / "sapp.md").read_text(encoding="utf-8")
    table = page[page.index("## Flags") : page.index("### What files say")]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {flag for cell in cells for flag in re.findall(r"(?<![\w-])--?[A-Za-z_]+", cell)}
    known = {name for action in parser()._actions for name in action.option_strings}
    assert known - named == {"-h", "--help", "--version", "--memory_folder", "--compute_memory"}
    assert named - known == {"-auto"}  # the page says what there is instead


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (("-O2",), "optimization_level", 2),
        (("-s8",), "stage", 8),
        (("-t", "5"), "time_limit", 5.0),
        (("--seq", "2"), "seq_split_num", 2),
        (("-train", "x.yaml"), "training_config", "x.yaml"),
        (("--stage=4",), "stage", 4),
        (("-dual",), "dualpipe_v", True),
    ],
)
def test_spellings(arguments, name, value):
    flags = parse(list(arguments))
    assert str(getattr(flags, name)) == str(value)


@pytest.mark.parametrize(
    ("argument", "hint"),
    [("-tarin", "-train"), ("-stag", "--stage"), ("-sfour", "--help"), ("--mbb", "-mb"), ("-time5", "--help")],
)
def test_a_misspelt_flag_is_not_taken_apart(argument, hint):
    with pytest.raises(click.UsageError) as refused:
        parse([argument, "x"])
    assert f"{argument} is an unknown flag; " in refused.value.message
    assert hint in refused.value.message


def test_a_language_alone_says_nothing():
    assert says_nothing([])
    assert says_nothing(["--lang", "zh"])
    assert says_nothing(["--lang=zh"])
    assert not says_nothing(["-s", "4"])
