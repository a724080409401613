"""What is said of options that a command line lacks: all of them at once."""

from collections.abc import Iterable, Mapping

import click

from evenflow.language import _, _n


def missing_options(values: Mapping[str, object | None], *, elsewhere: str) -> click.UsageError:
    """Return the error for options, given by name, some of which are None; `elsewhere` is what could say them too."""
    missing = [name for name, value in values.items() if value is None]
    message = _n(
        "Missing option {options}, or {elsewhere} that says it",
        "Missing options {options}, or {elsewhere} that says them",
        count=len(missing),
        options=_quoted(missing),
        elsewhere=elsewhere,
    )
    return click.UsageError(message)


def missing_message(error: click.MissingParameter) -> str | None:
    """Return what is said where a command line lacks several words; None where it lacks one, which click says."""
    context = error.ctx
    if context is None:
        return None
    # Those that are on the command line have been read before the first that is not.
    lacking = [param for param in context.command.params if param.required and param.name not in context.params]
    if len(lacking) < 2:
        return None
    return _("Missing {options}", options=_quoted(_shown(param, context) for param in lacking))


def _shown(param: click.Parameter, context: click.Context) -> str:
    return param.make_metavar(context) if isinstance(param, click.Argument) else param.opts[0]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
