"""Verbs that need PyTorch and transformers, which are an extra."""

from collections.abc import Iterator
from contextlib import contextmanager

from evenflow.errors import InputError


@contextmanager
def torch_extra(what: str, *, place: str) -> Iterator[None]:
    """Around imports: says that `what` needs the extra where one of them fails."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            value=error.name,
            rule=f"{what} needs PyTorch and transformers",
            place=place,
            remedy="pip install 'evenflow[run]'",
        ) from None
