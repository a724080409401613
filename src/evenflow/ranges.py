"""The range of every quantity, one for all places where it can be given: an option, a file, or Python.

A number outside of its range is a mistake in the unit, or more than any machine holds.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from `least` to `most`, both included unless `is_above` leaves `least` out."""

    least: float
    most: float
    is_above: bool = False
    """Whether `least`, which is then zero, is no such number."""
    is_whole: bool = True
    """Whether only integers are in it."""
    unit: str = ""
    """Unit of both numbers, for messages."""

    @property
    def rule(self) -> str:
        """What a number must be, as the rule of an `InputError`.

        >>> LAYERS.rule, SHARE.rule
        ('must be an integer from 1 to 100,000', 'must be a number from 0.0001 to 1')
        """
        if self.is_whole:
            return _("must be an integer {range}", range=self.text)
        return _("must be a number {range}", range=self.text)

    @property
    def text(self) -> str:
        """Both ends: ``from 1 to 100,000``, ``above zero, at most 100,000,000 MB``."""
        most = f"{_written(self.most)} {self.unit}".rstrip()
        if self.is_above:
            return _("above zero, at most {most}", most=most)
        return _("from {least} to {most}", least=_written(self.least), most=most)

    @property
    def above_zero(self) -> "Range":
        """The same without zero, at which it begins."""
        return replace(self, is_above=True)

    def __contains__(self, value: object) -> bool:
        # Most are plain integers: what else may be one takes ten times as long to find out.
        kind = Integral if self.is_whole else Real
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, kind)):
            return False
        number: Any = value
        return bool(self.least <= number <= self.most and not (self.is_above and number == 0))  # false for NaN

    def check(self, value: object, *, place: str, remedy: str = "") -> None:
        """Raise `InputError` for a value outside of the range."""
        if value not in self:
            raise InputError(value=value, rule=self.rule, place=place, remedy=remedy)


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


RANKS = Range(least=1, most=10_000)
"""Pipeline ranks."""
CHUNKS = Range(least=1, most=1_000)
"""Model chunks of each rank."""
MICROBATCHES = Range(least=1, most=2_000_000)
SEQUENCE_SPLITS = Range(least=1, most=10_000)
LAYERS = Range(least=1, most=100_000)
"""Body layers: of one entry of a layer file, and of a whole network."""
MODEL_LAYERS = Range(least=1, most=1_000)
"""Layers of a model that is built from its configuration."""
MODEL_SIZE = Range(least=1, most=100_000_000)
"""Hidden sizes, heads and vocabulary of a model that is built from its configuration."""
TOKENS = Range(least=1, most=10_000_000)
"""Tokens of a sequence."""
TRAINED_SIZE = Range(least=1, most=10**15)
"""Tokens and words of a training that `evenflow run` is asked for: what no machine holds is refused by its memory."""
SEQUENCES = Range(least=1, most=1_000_000)
"""Sequences of a microbatch."""
DEVICES = Range(least=1, most=1_000_000)
ROWS = Range(least=1, most=1_000)
"""Rows of a ranking."""
STEPS = Range(least=1, most=1_000_000_000)
"""Training steps."""
SEED = Range(least=0, most=2**32 - 1)

MEGABYTES = Range(least=0, most=100_000_000, is_whole=False, unit="MB")
"""Memory in files; the most is 100 terabytes."""
MILLISECONDS = Range(least=0, most=100_000_000, is_whole=False, unit="ms")
"""Times in files; the most is a day."""
COEFFICIENT = Range(least=0, most=1_000, is_whole=False)
"""Times as a multiple of others."""
MEMORY_BYTES = Range(least=0, most=100_000_000 * 2**20, unit="bytes")
TIME_NS = Range(least=0, most=100_000_000 * 10**6, unit="ns")
STEP_TOTAL = Range(least=0, most=2**60)
"""Nanoseconds or bytes of a whole step, all layers and microbatches one after the other: what 64 bits can add up."""
BYTES_PER_PARAMETER = Range(least=1, most=1000)
"""Weight, gradient and optimizer state; one of Adam in 32 bits has 16."""
EXPERT_CAPACITY = Range(least=1, most=1000, is_whole=False)
"""Room of an expert in shares of an equal load: with less than one, tokens would be dropped from equal loads too."""
PATCH = Range(least=1, most=1000, is_whole=False)
"""Bytes of a patch on average."""
MESH_AXES = Range(least=2, most=3)
"""Axes of the meshes that stages are tried on."""
BYTES_PER_S = Range(least=1, most=10**15)
"""Bandwidth of a link."""
SHARERS = Range(least=1, most=64)
"""Devices that share a link."""
AHEAD = Range(least=0, most=1_000)
"""Actions by which one is ahead of another."""
BEHIND = Range(least=1, most=1_000)
"""Actions by which one may be behind another."""
BUFFERS = Range(least=1, most=1_000)
"""Buffers for microbatches."""
FLOPS = Range(least=0, most=1e21, is_whole=False, is_above=True)
"""Floating-point operations per second of a device."""
SECONDS = Range(least=0, most=1e9, is_whole=False, is_above=True)
"""Time limits."""
RANK_SPEED = Range(least=0.01, most=1, is_whole=False)
"""Work of a rank in a time, as a share of what the fastest does."""
PAIR_SLOWDOWN = Range(least=1, most=10, is_whole=False)
"""Time of computation beside an exchange, over that without."""
ALTERNATIVES = Range(least=1, most=20)
"""Plans beside the best."""
CONFIDENCE = Range(least=0.5, most=0.999999, is_whole=False)
PEAKS = Range(least=0, most=1_000_000)
SHARE = Range(least=0.0001, most=1, is_whole=False)
"""Share of a peak rate that is reached."""
PART = Range(least=0, most=1, is_whole=False)
"""Part of a whole."""
LEARNING_RATE = Range(least=0, most=1000, is_whole=False)
