import click
import pytest
from click.testing import CliRunner

from evenflow.cli.shared.help_language import with_language
from evenflow.cli.shared.sections import SectionedCommand, in_section

_first, _second = in_section("First things"), in_section("Second things")


@with_language
@click.command(cls=SectionedCommand)
@_second("--late", help="Late.")
@_first("--early", help="Early.")
@click.option("--plain", help="Plain.")
@_second("--later", type=int, default=3, show_default=True, help="Later.")
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
