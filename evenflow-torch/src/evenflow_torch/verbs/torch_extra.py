"""Verbs that need PyTorch and transformers, which are an extra."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from evenflow.errors import InputError
from evenflow.interruption import on_interrupt
from evenflow.language import _
from evenflow_torch.run.job.run_folder import COMPILER_FOLDER, compiler_variables, remove, run_folder


@contextmanager
def torch_extra(*, place: str) -> Iterator[None]:
    """Turn a failed import inside the block into the message that the verb at `place` needs the extra.

    The folder that torch makes for its compiler, which evenflow has no use for, goes at the end of the command.
    """
    context = click.get_current_context(silent=True)
    if context is not None and COMPILER_FOLDER not in os.environ:
        context.with_resource(_compiler_folder())
    try:
        yield
    except ImportError as error:
        raise InputError(
            rule=_("must have PyTorch and transformers, and {name} is missing", name=error.name),
            place=place,
            remedy=_("pip install 'evenflow[torch]'"),
        ) from None


@contextmanager
def _compiler_folder() -> Iterator[None]:
    """Let torch write for its compiler into a folder that is removed at the end of the block, or by a signal."""
    with run_folder() as folder, on_interrupt(lambda: remove(folder)):
        os.environ.update(compiler_variables(folder))
        try:
            yield
        finally:
            os.environ.pop(COMPILER_FOLDER, None)
