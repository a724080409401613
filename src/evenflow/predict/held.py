"""The purposes that memory is held for, and sums of bytes by purpose."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Held(StrEnum):
    """A purpose that memory is held for."""

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
    DRIVER = "driver and communicators"


Parts = Mapping[Held, int]
"""Bytes by what they are held for."""


def added(*every: Parts, times: int = 1) -> dict[Held, int]:
    """Return the bytes of several parts added up by purpose, times a factor."""
    result: dict[Held, int] = {}
    for parts in every:
        for held, size in parts.items():
            result[held] = result.get(held, 0) + times * size
    return result


def largest(every: Iterable[Parts]) -> Parts:
    """Return the memory with the largest total; empty where there is none."""
    return max(every, key=total, default={})


def total(parts: Parts) -> int:
    """Return the total bytes of all purposes."""
    return sum(parts.values())
