"""The answer: configurations in the order of their steps, and what is proven of all of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.tune.candidate import Candidate
from evenflow.tune.question import Question


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The answer to a question."""

    question: Question
    ranked: tuple[Candidate, ...]
    """The best configuration of every split that was solved, the shortest step first."""
    candidates: tuple[Candidate, ...]
    """All legal configurations, those with the shortest step first, then by their bounds."""
    excluded: Mapping[str, int]
    """Configurations that are not legal, by the setting whose rule they break first."""
    reasons: Mapping[str, InputError]
    """A broken rule of each of these settings."""
    lower_bound_ns: float
    """No configuration of the space has a shorter step, in the model of costs."""
    solve_seconds: float
    interrupted: bool = False

    @property
    def best(self) -> Candidate | None:
        """The configuration with the shortest step; None where nothing fits."""
        return self.ranked[0] if self.ranked else None

    @property
    def gap(self) -> float | None:
        """The largest share of the best step that another configuration could save."""
        return None if self.best is None else max(0.0, 1 - self.lower_bound_ns / self.best.step_ns)

    @property
    def num_refuted(self) -> int:
        """Configurations that a lower bound alone shows to be no better than the best."""
        best = self.best
        if best is None:
            return 0
        return sum(one.found is None and one.lower_bound_ns >= best.step_ns for one in self.candidates)
