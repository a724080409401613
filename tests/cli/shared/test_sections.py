import click
import pytest
from click.testing import CliRunner

from evenflow.asking import asked
from evenflow.cli.shared.help_language import with_language
from evenflow.cli.shared.request_options import option_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.ranges import ROWS

_LATE = asked(option="--late", section="Second things", help="Late.")
_EARLY = asked(option="--early", section="First things", help="Early.")
_LATER = asked(ROWS, option="--later", section="Second things", shows_default=True, help="Later.")


@with_language
@click.command(cls=SectionedCommand)
@option_of(_LATE, "late")
@option_of(_EARLY, "early")
@click.option("--plain", help="Plain.")
@option_of(_LATER, "later", default=3)
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
