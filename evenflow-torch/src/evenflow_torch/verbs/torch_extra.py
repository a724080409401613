"""Verbs that need PyTorch and transformers, which are an extra."""

from collections.abc import Iterator
from contextlib import contextmanager

from evenflow.errors import InputError
from evenflow.language import _


@contextmanager
def torch_extra(*, place: str) -> Iterator[None]:
    """Turn a failed import inside the block into the message that the verb at `place` needs the extra."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            rule=_("must have PyTorch and transformers, and {name} is missing", name=error.name),
            place=place,
            remedy=_("pip install 'evenflow[torch]'"),
        ) from None
