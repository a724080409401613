"""Options of a command, made from what the fields of its request ask."""

import functools
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

import click

from evenflow.asking import Metadata, Question, question_of
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.sections import SectionOption

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


def option_of(
    metadata: Metadata, name: str, *, default: Any = None, is_required: bool = False
) -> Callable[[Command], Command]:
    """Return the option of one question, for a command that gets its value as `name`."""
    return _made(next(iter(metadata.values())), name, default, is_required=is_required)


def _option(field: "Field[Any]", question: Question) -> Callable[[Command], Command]:
    has_default = field.default is not MISSING
    return _made(
        question,
        field.name,
        field.default if has_default else None,
        is_required=not (has_default or question.typed_default or question.is_optional),
    )


def _made(question: Question, name: str, default: Any, *, is_required: bool) -> Callable[[Command], Command]:
    keywords: dict[str, Any] = {"multiple": True} if question.is_multiple else {}
    default = question.typed_default or default
    if default is not None and not question.is_multiple:  # click takes None for an answer
        keywords["default"] = default
    if isinstance(default, bool):
        keywords["is_flag"] = True
    if question.section:
        keywords |= {"cls": SectionOption, "section": question.section}
    kind: Any = Number(question.within) if question.within is not None and question.kind is None else question.kind
    return click.option(
        *filter(None, (question.letter, question.option)),
        name,
        type=kind,
        required=is_required,
        show_default=question.shows_default,
        metavar=question.metavar,
        help=question.help,
        hidden=question.is_hidden,
        **keywords,
    )
