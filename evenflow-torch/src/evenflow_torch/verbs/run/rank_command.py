"""A verb that torchrun starts many times."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from evenflow.cli.exit_status import BAD_INPUT
from evenflow.errors import InputError
from evenflow_torch.run.job.rank_environment import is_started_by_torchrun


class RankCommand(click.Command):
    """A command that may run as one of many ranks: all find the same bad input, and only rank 0 reports it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; another rank than 0 refuses it in silence."""
        with _silent_unless_rank_0(is_rank=is_started_by_torchrun(os.environ) or "--as-rank" in args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; another rank than 0 refuses bad input in silence."""
        with _silent_unless_rank_0(is_rank=is_started_by_torchrun(os.environ) or ctx.params["as_rank"]):
            return super().invoke(ctx)


@contextmanager
def _silent_unless_rank_0(*, is_rank: bool) -> Iterator[None]:
    try:
        yield
    except (InputError, click.ClickException):
        if not is_rank or os.environ.get("RANK", "0") == "0":
            raise
        raise click.exceptions.Exit(BAD_INPUT) from None
