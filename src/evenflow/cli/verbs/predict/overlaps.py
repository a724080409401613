"""The value of ``--overlap``: which exchanges run under computation."""

from typing import Any

import click

from evenflow.errors import InputError
from evenflow.language import _

OVERLAPS = {"tensor": False, "gradients": True, "parameters": True, "pipeline": True, "experts": False}
"""Exchanges by name, and whether they overlap unless the user says otherwise."""
_NOTHING = "none"


class OverlapList(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """Some of the names, separated by commas, or ``none``."""

    name = "NAME,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names in their order."""
        names = [] if value == _NOTHING else [name.strip() for name in str(value).split(",")]
        if not set(names) <= set(OVERLAPS):
            rule = _("must be some of {names}, separated by commas, or none", names=", ".join(OVERLAPS))
            raise InputError(value=value, rule=rule, place="--overlap")
        return tuple(name for name in OVERLAPS if name in names)
