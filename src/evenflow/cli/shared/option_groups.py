"""Options that several commands have, or that belong together: a command gets them as one value."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

Command = Callable[..., int]


def grouped(command: Command, options: Iterable[Callable[[Command], Command]], *, name: str, made: type) -> Command:
    """Add options to a command, which gets them as the argument `name`: a dataclass `made`, with a field for each."""

    @functools.wraps(command)
    def with_group(**keywords: Any) -> int:
        given = {field.name: keywords.pop(field.name) for field in fields(made)}
        return command(**{name: made(**given)}, **keywords)

    decorated: Command = with_group
    for option in reversed(tuple(options)):
        decorated = option(decorated)
    return decorated
