"""A row of the ranking on the way: the configurations of a split, which are made when one of them may win."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.rows.split import Split


@dataclass(kw_only=True, eq=False)
class SplitRow:
    """A split with a bound on all of its configurations."""

    split: Split
    pricing: Pricing = field(repr=False)
    lower_bound_ns: float
    """Of every configuration."""
    is_priced: bool = False
    """Whether this bound is its own, and not that of the whole space."""

    @cached_property
    def count(self) -> int:
        """How many configurations it has."""
        return len(self.split)

    def candidates(self) -> list[Candidate]:
        """Return its configurations, with the bound of the row."""
        return [
            Candidate(training=training, pricing=self.pricing, lower_bound_ns=self.lower_bound_ns)
            for training in self.split.trainings()
        ]


def num_refuted(made: Iterable[Candidate], unmade: Iterable[SplitRow], step_ns: float) -> int:
    """Return how many configurations a lower bound alone shows to be no better than `step_ns`, or not to fit."""
    by_itself = sum(candidate.found is None and candidate.lower_bound_ns >= step_ns for candidate in made)
    return by_itself + sum(row.count for row in unmade if row.lower_bound_ns >= step_ns)


def least_bound_ns(made: Iterable[Candidate], unmade: Iterable[SplitRow]) -> float:
    """Return a lower bound on the steps of all configurations; infinite where none fits."""
    bounds = [candidate.lower_bound_ns for candidate in made] + [row.lower_bound_ns for row in unmade]
    return min(bounds, default=float("inf"))
