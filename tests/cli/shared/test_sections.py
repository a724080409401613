from dataclasses import dataclass, field

import click
import pytest
from click.testing import CliRunner

from evenflow.asking import asked
from evenflow.cli.shared.help_language import with_language
from evenflow.cli.shared.request_options import options_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.ranges import ROWS


@dataclass(frozen=True, kw_only=True)
class _Asked:
    late: str | None = field(default=None, metadata=asked(option="--late", section="Second things", help="Late."))
    early: str | None = field(default=None, metadata=asked(option="--early", section="First things", help="Early."))
    plain: str | None = field(default=None, metadata=asked(option="--plain", help="Plain."))
    later: int = field(
        default=3,
        metadata=asked(ROWS, option="--later", section="Second things", shows_default=True, help="Later."),
    )


@with_language
@click.command(cls=SectionedCommand)
@options_of(_Asked)
@click.option("--hidden", hidden=True)
def command(**values: object) -> None:
    click.echo(sorted(values.items()))


def test_options_stand_in_their_sections_and_the_rest_comes_last():
    lines = [line for line in CliRunner().invoke(command, ["--help"]).stdout.splitlines() if line]
    found = [line.split("  ")[1].split()[0] if line.startswith("  ") else line for line in lines[1:]]
    assert found == [
        "Second things:", "--late", "--later", "First things:", "--early",
        "Other options:", "--plain", "--lang", "-h,",
    ]  # fmt: skip


@pytest.mark.parametrize(("given", "value"), [((), 3), (("--later", "7"), 7)])
def test_a_section_changes_nothing_else(given, value):
    assert f"('later', {value})" in CliRunner().invoke(command, list(given)).stdout


@click.command(cls=SectionedCommand)
@click.option("--model")
def modelled(model: str | None) -> None:
    click.echo(model)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (command, "Got unexpected extra argument (a.json b)\n"),
        (modelled, "Got unexpected extra argument (a.json b). Did you mean --model a.json?\n"),
    ],
)
def test_words_that_belong_to_no_option_are_most_likely_the_model(made, said):
    result = CliRunner().invoke(made, ["a.json", "b"])
    assert result.exit_code == 2
    assert result.stderr.endswith(said)
