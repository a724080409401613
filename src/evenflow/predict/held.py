"""What memory is held for, and sums of bytes by it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Held(StrEnum):
    """What memory is held for."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    NORMS = "activations of norms and residuals"
    ATTENTION = "activations of attention"
    MLP = "activations of MLPs"
    EXPERTS = "activations of experts"
    LOGITS = "logits and loss"
    BUFFERS = "communication buffers"
    RESERVE = "reserve"


Parts = Mapping[Held, int]
"""Bytes by what they are held for."""


def added(*every: Parts, times: int = 1) -> dict[Held, int]:
    """Return the sums of the parts, each `times` as much."""
    result: dict[Held, int] = {}
    for parts in every:
        for held, size in parts.items():
            result[held] = result.get(held, 0) + times * size
    return result


def largest(every: Iterable[Parts]) -> Parts:
    """Return the parts that are the most bytes together; none of nothing."""
    return max(every, key=total, default={})


def total(parts: Parts) -> int:
    """Return all bytes of the parts."""
    return sum(parts.values())
