"""The smallest step of a schedule and its text form, the one torch.distributed.pipelining reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from evenflow.errors import InputError
from evenflow.language import _


class Op(IntEnum):
    """The operation that an action computes; its value is its code in `Schedule.ops`."""

    F = 0
    """Forward."""
    B = 1
    """Full backward: gradients of input and weights."""
    I = 2  # noqa: E741  the field's name
    """Input gradient: the first part of a split backward."""
    W = 3
    """Weight gradient: the second part of a split backward, at any time after the first."""


NUM_OPS = len(Op)
FORWARD, FULL_BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = (int(op) for op in Op)
"""The codes of `Op` as plain integers, for compiled loops."""

_TOKEN = re.compile(r"(\d+)([A-Z]+)(\d+)")


@dataclass(frozen=True, slots=True)
class Action:
    """One operation of one stage on one microbatch.

    >>> str(Action(2, Op.F, 0))
    '2F0'
    >>> Action.parse("2F0")
    Action(stage=2, op=<Op.F: 0>, microbatch=0, is_paired=False)
    """

    stage: int
    op: Op
    microbatch: int
    is_paired: bool = field(default=False, compare=False)
    """Whether it is a forward that runs beside the backward behind it."""

    def __str__(self) -> str:
        return f"{self.stage}{self.op.name}{self.microbatch}"

    @classmethod
    def parse(cls, token: str, *, names: Mapping[str, Op] = Op.__members__, place: str = "action") -> "Action":
        """Return the action that `token` stands for, as `str` writes it; `names` are the names of the operations."""
        match = _TOKEN.fullmatch(token.strip())
        if match is None or match[2] not in names:
            raise InputError(
                value=token,
                rule=_("must be a stage, an operation ({names}) and a microbatch, like 2F0", names=", ".join(names)),
                place=place,
            )
        return cls(int(match[1]), names[match[2]], int(match[3]))
