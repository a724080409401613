"""The verb ``evenflow schedules``."""

import textwrap
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import Outputs
from evenflow.export.results.schedule_fields import family_fields
from evenflow.schedule import ALIAS_NOTES, ALIASES, FAMILIES

_WIDTH = 110
_SYMBOLS = """\
p ranks, v chunks on each rank, m microbatches, rank r from 0. Memory is the most that rank r keeps, in whole-rank
activations of one microbatch. The bubble is the idle share of a step with equal stages and free messages."""


@click.command()
@options.JSON
@options.OVERWRITE
def schedules(json_file: Path | None, overwrite: bool) -> int:
    """List the schedule families: idea, limits, memory, bubble and paper.

    \b
    Example:
      evenflow schedules --json families.json
    """
    outputs = Outputs({"--json": json_file}, overwrite=overwrite, without_mark=("--json",))
    paragraphs = [_SYMBOLS]
    for name, family in FAMILIES.items():
        rows = [
            ("idea", family.idea),
            ("limits", family.limits),
            ("memory", family.memory),
            ("bubble", family.bubble),
            ("paper", family.paper),
            *(("also", f"{alias}: {ALIAS_NOTES[alias]}") for alias, owner in ALIASES.items() if owner == name),
        ]
        lines = [
            textwrap.fill(text, _WIDTH, initial_indent=f"  {row:8}", subsequent_indent=" " * 10) for row, text in rows
        ]
        paragraphs.append("\n".join([name, *lines]))
    click.echo("\n\n".join(paragraphs))
    outputs.write_json(family_fields)
    if outputs.sentence:
        click.echo(f"\n{outputs.sentence}")
    return 0
