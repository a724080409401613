"""Help and usage messages in the language spoken: ``--lang``, and what click writes by itself."""

import gettext
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import click

from evenflow.cli.shared.defaults import say_defaults
from evenflow.cli.text.display_width import wrapped
from evenflow.language import (
    CATALOGUES,
    ENGLISH,
    LANGUAGES,
    VARIABLE,
    language_of,
    looked_up,
    speaking,
    spoken,
    to_translate,
)

OPTION = "--lang"
HELP = to_translate("Language of help and messages.  [default: that of the locale]")
HELP_OF_HELP = to_translate("Show this message and exit.")
_KEPT_AS_IT_IS = "\b"
"""Before a paragraph: click's sign not to fill its lines."""


def asked_language(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the language of ``--lang``, wherever it stands, or that of the environment.

    >>> asked_language(["plan", "--lang", "zh"], {}), asked_language(["--lang=en"], {"LANG": "zh_CN"})
    ('zh', 'en')
    """
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    values = [argument.partition("=")[2] for argument in own if argument.startswith(f"{OPTION}=")]
    values += [value for option, value in pairwise(own) if option == OPTION]
    return next((value for value in values if value in LANGUAGES), language_of(environment))


@contextmanager
def speaking_as_asked(arguments: Sequence[str]) -> Iterator[None]:
    """Speak the language of a command line, in the processes that it starts and in the libraries that read it too."""
    language = asked_language(arguments, os.environ)
    before = {name: os.environ.get(name) for name in (VARIABLE, "LANGUAGE")}
    domain = gettext.textdomain()
    os.environ[VARIABLE] = language
    if language != ENGLISH:  # click and argparse look up their own sentences, by the environment
        os.environ["LANGUAGE"] = language
        gettext.bindtextdomain("toolkit", str(CATALOGUES))
        gettext.textdomain("toolkit")
    try:
        with speaking(language):
            yield
    finally:
        gettext.textdomain(domain)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def with_language(command: click.Command) -> click.Command:
    """Give a command, and those below it, the option and help in the language spoken."""
    if command.context_class is not _Context:
        command.context_class = _Context
        choice = click.Choice(LANGUAGES)
        command.params.append(click.Option([OPTION], type=choice, expose_value=False, help=HELP))
        command.add_help_option = False  # click's own stays in the language of the first command of a process
        click.help_option("-h", "--help", help=HELP_OF_HELP)(command)
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = next(messages_of_help(inner.help or ""))[0]  # whole, as the catalogue has it
        with_language(inner)
    return command


def messages_of_help(text: str) -> Iterator[tuple[str, str]]:
    """Yield every paragraph of a help text as the message that it is, and what follows unchanged: lines of examples."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith(_KEPT_AS_IT_IS):
            title, _, examples = paragraph.removeprefix(f"{_KEPT_AS_IT_IS}\n").partition("\n")
            yield title, examples
        else:
            yield " ".join(paragraph.split()), ""


class _Formatter(click.HelpFormatter):
    """Writes help in the language spoken; in English exactly as click does."""

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        if spoken() != ENGLISH:
            width = self.width - self.current_indent
            text = "\n\n".join(
                "\n".join([_KEPT_AS_IT_IS, *wrapped(looked_up(message), width), *([examples] if examples else [])])
                for message, examples in messages_of_help(text)
            )
        super().write_text(text)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they mean in two columns."""
        rows = list(rows)
        if spoken() != ENGLISH and rows:
            first = min(max(len(name) for name, _ in rows), col_max) + col_spacing
            width = max(self.width - first - 2, 10)
            rows = [(name, "\n".join([_KEPT_AS_IT_IS, *wrapped(_looked_up(text), width)])) for name, text in rows]
        super().write_dl(rows, col_max, col_spacing)


class _Context(click.Context):
    formatter_class = _Formatter

    def invoke(self, callback: Any, /, *args: Any, **keywords: Any) -> Any:
        """Run a command, and say first which defaults it has from the user's file."""
        say_defaults(self)
        return super().invoke(callback, *args, **keywords)


def _looked_up(text: str) -> str:
    """Return the help of an option; its last brackets may be click's, as ``[required]`` is."""
    translated = looked_up(text)
    if translated == text and "  [" in text:
        help_text, _, brackets = text.rpartition("  [")
        return f"{looked_up(help_text)}  [{brackets}"
    return translated
