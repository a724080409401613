"""What a command says whose time was over before its loops were compiled."""

import click

from evenflow.interruption import command_began_s
from evenflow.language import _
from evenflow.simulate import is_compiling


def note_compiling(*, is_last_word: bool) -> None:
    """Say that an answer was made without the loops that are still being compiled, in a process that is a command.

    `is_last_word` says whether the loops could not have changed it: it is proven.
    """
    if not is_last_word and is_compiling() and command_began_s() is not None:
        note = _(
            "note: the time was over before the loops of evenflow were compiled, which is done once: the answer is "
            "what was found without them; run it again, or with a longer --time-limit"
        )
        click.echo(note, err=True)
