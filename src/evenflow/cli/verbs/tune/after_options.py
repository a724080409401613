"""The options of ``evenflow tune`` for what is asked after the ranking."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from evenflow import ranges
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.sections import in_section
from evenflow.errors import InputError
from evenflow.language import _, to_translate

_of_answers = in_section(to_translate("What is asked of the ranking"))
_EXPLAIN = "--explain"
_OPTIONS = (
    _of_answers(
        _EXPLAIN,
        type=Number(ranges.ROWS),
        metavar="N",
        help="Say why row N is not the first, by part of the step.",
    ),
    _of_answers(
        "--neighbours",
        is_flag=True,
        help="Price every axis one step away from the first row, or say why that cannot be.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterOptions:
    """What was given of them."""

    explain: int | None
    neighbours: bool

    def check(self, *, rows: int) -> None:
        """Refuse a row that the table will not have; raises InputError."""
        if self.explain is None:
            return
        if self.explain == 1:
            rule = _("must be from 2: row 1 is the first")
            raise InputError(value=1, rule=rule, place=_EXPLAIN)
        if self.explain > rows:
            rule = _("must be at most the {rows} rows of the table", rows=rows)
            remedy = _("add --rows {rows}", rows=self.explain)
            raise InputError(value=self.explain, rule=rule, place=_EXPLAIN, remedy=remedy)


def after_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `after`."""

    @functools.wraps(command)
    def with_after(**keywords: Any) -> int:
        given = {field.name: keywords.pop(field.name) for field in fields(AfterOptions)}
        return command(after=AfterOptions(**given), **keywords)

    for option in reversed(_OPTIONS):
        with_after = option(with_after)
    return with_after
