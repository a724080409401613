"""The option that lets searches count their work instead of the time."""

from collections.abc import Callable

import click

from evenflow.solve.clock import reproducible

Command = Callable[..., int]


def may_be_reproducible(command: Command) -> Command:
    """Give a command that searches the option ``--reproducible``, which holds for all that it does."""
    return click.option(
        "--reproducible",
        is_flag=True,
        expose_value=False,
        callback=_begin,
        help="Search with one thread and count work instead of time: equal commands write equal files.",
    )(command)


def _begin(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        context.with_resource(reproducible())
