"""The option ``--dtype``, which takes both spellings of a number format."""

from collections.abc import Callable
from typing import Any

import click

from evenflow.cluster import DTYPES, Dtype
from evenflow.language import _


def dtype_option(*offered: Dtype, help: str) -> Callable[[Any], Any]:  # noqa: A002 - click's name
    """Return the option, whose default is the first of the offered formats."""
    first = offered[0]

    def read(_context: click.Context, _parameter: click.Parameter, name: str) -> Dtype:
        dtype = DTYPES.get(name.lower())
        if dtype not in offered:
            names = ", ".join(f"{offer.short_name} ({offer.value})" for offer in offered)
            raise click.BadParameter(_("{name!r} is not one of {names}", name=name, names=names))
        return dtype

    return click.option(
        "--dtype",
        default=first.short_name,
        callback=read,
        metavar=f"[{'|'.join(dtype.short_name for dtype in offered)}]",
        help=f"{help}; long names such as {first.value} mean the same.  [default: {first.short_name}]",
    )
