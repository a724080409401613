"""Options of a command, made from what the fields of its request ask."""

import functools
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_args

import click

from evenflow.asking import Question, question_of
from evenflow.cli.shared.dtype_option import DtypeName
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.sections import SectionOption
from evenflow.cluster import Dtype

Command = Callable[..., int]


def options_of(request: type) -> Callable[[Command], Command]:
    """Give a command an option for each field of `request` that asks for one, in their order, under the field's name.

    A field that asks for a group has the options of its class in its place, and the command gets them as one value.
    """

    def decorated(command: Command) -> Command:
        for field in reversed(fields(request)):
            question = question_of(field)
            if question is None:
                continue
            made = options_as(field.name, question.group) if question.group else _option(field, question)
            command = made(command)
        return command

    return decorated


def options_as(name: str, request: type) -> Callable[[Command], Command]:
    """Give a command the options of `request`, which it gets as one value: the argument `name`."""

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def with_request(**keywords: Any) -> int:
            answers = {field.name: keywords.pop(field.name) for field in fields(request)}
            return command(**{name: request(**answers)}, **keywords)

        return options_of(request)(with_request)

    return decorated


def _option(field: "Field[Any]", question: Question) -> Callable[[Command], Command]:
    keywords: dict[str, Any] = {"multiple": True} if question.is_multiple else {}
    has_default = field.default is not MISSING
    default = question.typed_default or (field.default if has_default else None)
    if default is not None and not question.is_multiple:  # click takes None for an answer
        keywords["default"] = default
    if isinstance(default, bool) or question.no_option:
        keywords |= {"is_flag": True, "default": default}
    if question.section:
        keywords |= {"cls": SectionOption, "section": question.section}
    return click.option(
        *filter(None, (question.letter, "/".join(filter(None, (question.option, question.no_option))))),
        field.name,
        type=_kind(question, field.type),
        required=not (has_default or question.typed_default or question.is_optional),
        show_default=question.shows_default,
        metavar="FILE" if question.metavar is None and _is_path(field.type) else question.metavar,
        help=question.help,
        hidden=question.is_hidden,
        **keywords,
    )


def _kind(question: Question, value_type: object) -> Any:
    """Return the type of an option as click knows it: what its question says, else a file for a path."""
    if question.kind is not None:
        return question.kind
    if question.read is not None:
        return _Text(question.read)
    if question.within is not None:
        return Number(question.within)
    if question.choices:
        formats = [choice for choice in question.choices if isinstance(choice, Dtype)]
        return DtypeName(*formats) if formats else click.Choice(list(question.choices))
    return click.Path(path_type=Path) if _is_path(value_type) else None


def _is_path(value_type: object) -> bool:
    return Path in (value_type, *get_args(value_type))


class _Text(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of an option whose text a function reads."""

    name = "text"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return what the function makes of the text."""
        return self._read(value)
