"""A first plan, before there is a file of one's own: `evenflow plan` for a layer file that comes with evenflow."""

import shlex
from pathlib import Path

import click

from evenflow.cli.verbs.plan import plan

LAYERS = Path(__file__).with_name("llama2_70b.json")
"""The layer file of examples/, which an installation does not have."""
SIZES = ("--ranks", "8", "--chunks", "2", "--microbatches", "32", "--memory", "56GB")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", metavar="[OPTION OF PLAN]...", nargs=-1, type=click.UNPROCESSED)
def demo(options: tuple[str, ...]) -> object:
    """Plan a 70B model on 8 ranks, for a first look: nothing else is needed.

    It says the command that it runs, and takes every option of `evenflow plan`, also in the place of its own.

    \b
    Example:
      evenflow demo --html plan.html
    """
    arguments = (str(LAYERS), *SIZES, *options)
    click.echo(f"evenflow plan {shlex.join(arguments)}\n", err=True)
    return plan.main(args=list(arguments), prog_name="evenflow plan", standalone_mode=False)
