"""Questions on the terminal, asked again until the answer is right."""

from collections.abc import Callable
from typing import TypeVar

import click

from evenflow.errors import InputError
from evenflow.language import _

Answer = TypeVar("Answer")


def ask(question: str) -> str:
    """Return the answer without spaces around it.

    Raises click.Abort for Ctrl-C, and where the input ends, was closed or cannot be read.
    """
    try:
        answer: str = click.prompt(question, default="", show_default=False, prompt_suffix="")
    except (OSError, RuntimeError, UnicodeDecodeError):
        raise click.Abort from None
    return answer.strip()


def ask_value(question: str, read: Callable[[str], Answer], *, default: Answer | None = None) -> Answer:
    """Return what `read` makes of the answer; `default`, if there is one, for nothing, or ``*`` as in the original.

    `read` raises InputError for a wrong answer.
    """
    while True:
        answer = ask(question)
        if answer in ("", "*") and default is not None:
            return default
        try:
            return read(answer)
        except InputError as error:
            click.echo(str(error), err=True)


def ask_yes(question: str) -> bool:
    """Ask for yes or no; nothing is no."""
    while True:
        answer = ask(question).lower()
        if answer in ("y", "yes", "1"):
            return True
        if answer in ("", "n", "no", "0"):
            return False
        click.echo(_("answer y or n"), err=True)


def whole_number(answer: str) -> int:
    """Return a whole number of at most nine digits; raises InputError."""
    if not (answer.isascii() and answer.isdecimal() and len(answer) < 10):
        raise InputError(value=answer, rule=_("must be a whole number"), place=_("the answer"))
    return int(answer)
