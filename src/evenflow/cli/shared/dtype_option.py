"""The type of ``--dtype``, which takes both spellings of a number format."""

import click

from evenflow.cluster import DTYPES, Dtype
from evenflow.language import _


class DtypeName(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of an option that takes one of some number formats, by either name."""

    def __init__(self, *offered: Dtype) -> None:
        self._offered = offered
        self.name = f"[{'|'.join(dtype.short_name for dtype in offered)}]"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the short names."""
        return self.name

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Dtype:
        """Return the format; fails for a name that none of those offered has."""
        dtype = DTYPES.get(value.lower())
        if dtype not in self._offered:
            names = ", ".join(f"{offer.short_name} ({offer.value})" for offer in self._offered)
            self.fail(_("{name!r} is not one of {names}", name=value, names=names), param, ctx)
        return dtype
