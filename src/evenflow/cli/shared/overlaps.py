"""The value of ``--overlap``: which exchanges run under computation."""

from collections.abc import Mapping
from typing import Any

import click

from evenflow.errors import InputError
from evenflow.language import _

OVERLAPS = {"tensor": False, "gradients": True, "parameters": True, "pipeline": True, "experts": False}
"""Exchanges by name, and whether they overlap unless the user says otherwise."""
STAGE_OVERLAPS = {name: OVERLAPS[name] for name in ("tensor", "gradients", "parameters")}
"""Those inside a stage."""
_NOTHING = "none"


class OverlapList(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of an option that takes names of exchanges, separated by commas, or ``none``."""

    name = "NAME,…"

    def __init__(self, overlaps: Mapping[str, bool] = OVERLAPS) -> None:
        self._names = tuple(overlaps)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names that a text has, in the order in which they are offered."""
        names = [] if value == _NOTHING else [name.strip() for name in str(value).split(",")]
        if not set(names) <= set(self._names):
            rule = _("must be some of {names}, separated by commas, or none", names=", ".join(self._names))
            raise InputError(value=value, rule=rule, place="--overlap")
        return tuple(name for name in self._names if name in names)


def usual(overlaps: Mapping[str, bool]) -> str:
    """Return the exchanges that overlap by default, as a user would type them."""
    return ",".join(name for name, is_default in overlaps.items() if is_default)
