"""The times of equal stages, on the command line."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from evenflow import ranges
from evenflow.cli.shared.numbers import Number
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.units import nanoseconds_from_milliseconds

_MILLISECONDS = ranges.MILLISECONDS.above_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Times of one microbatch (or part of it) on one stage."""

    forward_ns: int
    backward_ns: int
    weight_ns: int | None
    """Part of the backward for the weights; None for half of it."""

    def keywords(self) -> dict[str, Any]:
        """Return the times as keywords."""
        return {"forward_ns": self.forward_ns, "backward_ns": self.backward_ns, "weight_ns": self.weight_ns}


def read_times(*, forward_ms: float, backward_ms: float, weight_ms: float | None) -> StageTimes:
    """Return the times that the options give; raises InputError for one that breaks a rule."""
    forward_ns, backward_ns = _time_ns(forward_ms, option="--forward"), _time_ns(backward_ms, option="--backward")
    weight_ns = None if weight_ms is None else _time_ns(weight_ms, option="--weight")
    if weight_ns is not None and weight_ns > backward_ns:
        rule = _("must not be longer than the backward, which it is a part of")
        raise InputError(value=weight_ms, rule=rule, place="--weight")
    return StageTimes(forward_ns=forward_ns, backward_ns=backward_ns, weight_ns=weight_ns)


def stage_times(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `times`."""

    @functools.wraps(command)
    def with_times(*, forward_ms: float, backward_ms: float, weight_ms: float | None, **keywords: Any) -> int:
        times = read_times(forward_ms=forward_ms, backward_ms=backward_ms, weight_ms=weight_ms)
        return command(times=times, **keywords)

    for option in (_WEIGHT, _BACKWARD, _FORWARD):
        with_times = option(with_times)
    return with_times


def _time_ns(milliseconds: float, *, option: str) -> int:
    _MILLISECONDS.check(milliseconds, place=option)
    return max(1, nanoseconds_from_milliseconds(milliseconds))


_FORWARD = click.option(
    "--forward", "forward_ms", type=Number(_MILLISECONDS), default=1.0, show_default=True, metavar="MS",
    help="Forward time of one microbatch on one stage.",
)  # fmt: skip
_BACKWARD = click.option(
    "--backward", "backward_ms", type=Number(_MILLISECONDS), default=2.0, show_default=True, metavar="MS",
    help="Backward time of one microbatch on one stage.",
)  # fmt: skip
_WEIGHT = click.option(
    "--weight", "weight_ms", type=Number(_MILLISECONDS), metavar="MS",
    help="Part of the backward for the weights, which some schedules run on its own.  [default: half]",
)  # fmt: skip
