"""What is read of the log of a framework, line by line."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from evenflow.profiles.measured.logs.stated import Names, Stated


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """A line of training progress; None for what it does not say."""

    number: int | None
    """Of the step, counted by the framework."""
    time_s: float | None = None
    """Of a step, the mean of those since the line before."""
    tokens_s: float | None = None
    """Tokens per second and device."""
    samples_s: float | None = None
    """Sequences per second of the whole job."""
    tflops: float | None = None
    """Of a device."""
    batch: int | None = None
    """Sequences of the step."""


class PeakOf(IntEnum):
    """What a peak is of; the first that a log has counts, as it is what a training's tensors take."""

    ALLOCATED = 0
    RESERVED = 1
    DEVICE = 2
    """All that is taken on the device, by whomever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPeak:
    """Peak memory in a line of a log."""

    rank: int | None
    """None where the line does not say it."""
    of: PeakOf
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFormat:
    """How a framework writes its logs."""

    name: str
    step: Callable[[str], LoggedStep | None]
    """The step in a line; quick where there is none."""
    fields: Callable[[Stated], Mapping[str, object]]
    """Fields of a `MeasuredRun` that follow from what a log states; None for what does not."""
    names: frozenset[str]
    """Names whose values are stated in one of the usual forms."""
    sentences: Callable[[str], Iterator[tuple[str, str]]] = lambda line: iter(())
    """Names and texts of values that a line states in a form of the framework's own."""
    peaks: Callable[[str, str], Iterator[LoggedPeak]] = lambda line, place: iter(())
    """The peaks in a line; the second text names the log."""
    beginnings: tuple[str, ...] = ()
    """What the framework says when a run begins."""
    gives_way: bool = False
    """Whether another format counts where a log has lines of both, as Megatron-DeepSpeed's have."""


@dataclass(frozen=True, kw_only=True)
class LogFormats:
    """The formats that a log may have; where it has lines of several, the first counts."""

    formats: tuple[LogFormat, ...]

    @cached_property
    def names(self) -> Names:
        """Names whose values a log may state."""
        return Names(name for log_format in self.formats for name in log_format.names)

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """What frameworks say when a run begins."""
        return tuple(text for log_format in self.formats for text in log_format.beginnings)


NUMBER = r"([0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?|nan|inf)"
"""A number in a line of progress."""


def number_in(pattern: re.Pattern[str], line: str) -> float | None:
    """The first number that a pattern finds in a line."""
    match = pattern.search(line)
    return None if match is None else float(match[1].replace(",", ""))
