"""The type of every option that is a number: one range for it, said where it is left."""

from typing import Any

import click

from evenflow.language import _
from evenflow.ranges import Range


class Number(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of an option whose value is a number within a range."""

    def __init__(self, within: Range) -> None:
        self.within = within
        self.name = "integer" if within.is_whole else "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raise `InputError` for a text that is none, or is outside of the range."""
        number = as_number(value, self.within) if isinstance(value, str) else value
        place = param.opts[0] if param is not None and param.opts else _("the number")
        self.within.check(number, place=place)
        return number


def as_number(text: str, within: Range) -> object:
    """Return the number that `text` writes, of the type that `within` has; the text itself where it is none."""
    try:
        return int(text) if within.is_whole else float(text)
    except ValueError:  # also thousands of digits
        return text
