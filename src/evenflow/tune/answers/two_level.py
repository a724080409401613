"""What shardings of every operator could gain over degrees, both priced operator by operator; values only.

Whoever plans both levels makes them: this room does not know how.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelStep:
    """The main figures of a two-level plan."""

    step_ns: int
    """Simulated, by the costs of single operators."""
    microbatch: int
    """Sequences of a microbatch, of all copies of the model together."""
    num_microbatches: int
    schedule: str
    peak_bytes: int
    """Of the fullest rank, without the reserve."""
    description: str
    """What its stages are, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refiner:
    """What answers ``evenflow tune --refine NAME``: an installed package brings it, as an entry point `NAME`."""

    check: Callable[..., None]
    """Raises InputError for a question that it has no answer to; takes the question and the model's file."""
    command: Callable[..., str]
    """Returns the command that plans the same for longer; takes the options and the question."""
    answer: Callable[..., Any]
    """Returns a `TwoLevel`; takes the ranking, the model's configuration and the time that is left, and `rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """The degrees of a row beside free shardings."""

    row: int
    """The number of the first row whose degrees can be priced so; 0 where none can."""
    degrees: TwoLevelStep | None = None
    """The best plan with these degrees; None where it is not known."""
    plain: TwoLevelStep | None = None
    """The best plan with any degrees, and the microbatches of the free one; None where it is not known."""
    free: TwoLevelStep | None = None
    """The best plan found whose operators are all sharded freely; None where none is known."""
    lower_bound_ns: int = 0
    """No plan at all has a shorter step at these costs; 0: not known."""
    reason: str = ""
    """Why one of them is not known."""

    @property
    def best_degrees(self) -> TwoLevelStep | None:
        """The shorter of the plans with degrees; None where one of them is not known."""
        if self.degrees is None or self.plain is None:
            return None
        return min(self.degrees, self.plain, key=lambda step: step.step_ns)

    @property
    def gain(self) -> float | None:
        """The share that the free plan saves of the best degrees' step; 0 where none was found that is shorter."""
        best = self.best_degrees
        return None if best is None or self.free is None else max(0.0, 1 - self.free.step_ns / best.step_ns)

    @property
    def most_gain(self) -> float | None:
        """The share of the best degrees' step that any plan could save at most; None where that is not known."""
        best = self.best_degrees
        return None if best is None or not self.lower_bound_ns else max(0.0, 1 - self.lower_bound_ns / best.step_ns)
