"""Options that are numbers have one range, whichever verb they belong to."""

from pathlib import Path

import click
import pytest

from evenflow.cli.main import VERBS, main
from evenflow.cli.shared.numbers import Number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "nan", "1e3", "10001", "9" * 400, "9" * 5000])
def test_a_count_outside_of_its_range(evenflow, folder: Path, text: str) -> None:
    result = evenflow("simulate", "tiny.json", "--ranks", text, "--microbatches", 2)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --ranks must be an integer from 1 to 10,000, got ")
    assert len(result.stderr) < 400


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf", "1e300"])
def test_a_time_limit_outside_of_its_range(evenflow, folder: Path, text: str) -> None:
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2, "--time-limit", text)
    assert result.exit_code == 2
    assert "--time-limit must be a number above zero, at most 1e+09" in result.stderr


def commands() -> list[click.Command]:
    found = []
    context = click.Context(main)
    for name in VERBS:
        verb = main.get_command(context, name)
        found += list(verb.commands.values()) if isinstance(verb, click.Group) else [verb]
    return found


def test_no_option_has_a_number_without_a_range() -> None:
    numbers = [option for command in commands() for option in command.params if isinstance(option.type, Number)]
    assert len(numbers) > 30
    bare = (click.types.IntParamType, click.types.FloatParamType)
    assert [option.opts for command in commands() for option in command.params if isinstance(option.type, bare)] == []
