"""The options that say what a launch script has from outside: variables, and the words behind its name."""

import re
import shlex
from collections.abc import Callable

import click

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.shell_inputs import ScriptInputs, given_to_scripts, script_inputs

Command = Callable[..., int]
SET, ARGS = "--set", "--args"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def may_read_scripts(command: Command) -> Command:
    """Give a command that reads launch scripts the options ``--set`` and ``--args``, which hold for all of them."""
    words = click.option(
        ARGS,
        "script_words",
        metavar="TEXT",
        expose_value=False,
        callback=_remember,
        help='Words behind the name of a launch script, for its $1, $2 … and $@, as in --args "8 4 train.yaml".',
    )
    values = click.option(
        SET,
        "script_values",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_begin,
        help="Value of a variable that a launch script has from its environment, such as PP=4. May be given several "
        "times.",
    )
    return values(words(command))


def check_scripts() -> None:
    """Say which files a script sources could not be read; raise InputError for an input that no script has read."""
    inputs = script_inputs()
    for name in dict.fromkeys(inputs.missing):
        note = _(
            "{name} is sourced by the script and not read here: give what it sets with {option}", name=name, option=SET
        )
        click.echo(_("note: {note}", note=note), err=True)
    inputs.check_read()


def _remember(context: click.Context, _option: click.Parameter, words: str | None) -> None:
    context.meta[ARGS] = words
    if SET in context.meta:
        _enter(context)


def _begin(context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> None:
    context.meta[SET] = values
    if ARGS in context.meta:
        _enter(context)


def _enter(context: click.Context) -> None:
    """Let scripts have what both options say, once both are read."""
    values: dict[str, str] = {}
    for text in context.meta[SET]:
        name, sign, value = text.partition("=")
        if not sign or not _NAME.fullmatch(name):
            raise InputError(value=text, rule=_("must be a name and its value, such as PP=4"), place=SET)
        values[name] = value
    words = context.meta[ARGS]
    try:
        split = None if words is None else tuple(shlex.split(words))
    except ValueError:
        raise InputError(value=words, rule=_("must have quotation marks that are closed"), place=ARGS) from None
    context.with_resource(given_to_scripts(ScriptInputs(values=values, words=split)))
