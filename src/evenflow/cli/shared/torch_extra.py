"""Verbs that need PyTorch and transformers, which are an extra."""

from collections.abc import Iterator
from contextlib import contextmanager

from evenflow.errors import InputError


@contextmanager
def torch_extra(*, place: str) -> Iterator[None]:
    """Turn a failed import inside the block into the message that the verb at `place` needs the extra."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            value=None,
            rule=f"must have PyTorch and transformers, and {error.name} is missing",
            place=place,
            remedy="pip install 'evenflow[run]'",
        ) from None
