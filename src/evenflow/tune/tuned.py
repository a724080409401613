"""The answer to a tuning: configurations from the shortest step up, and what is proven of all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.notebook import InNotebook
from evenflow.predict.training import Training
from evenflow.solve.proof import TOLERANCE
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.row import SplitRow, least_bound_ns, num_refuted
from evenflow.tune.wording import recompute_words, split_words

_SUMMARY_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class Tuned(InNotebook):
    """A ranking of configurations, with its proof."""

    question: TuningQuestion
    ranked: tuple[Candidate, ...]
    """The best configuration of every split that was solved, the shortest step first, or a simpler one as good."""
    made: tuple[Candidate, ...]
    """Legal configurations that were looked at by themselves, those with the shortest step first, then by bounds."""
    unmade: tuple[SplitRow, ...] = ()
    """Rows of the others, each with one bound on all of its configurations."""
    unseen_bound_ns: float = float("inf")
    """A bound on combinations that there was no time to look at; infinite without any."""
    excluded: Mapping[str, int]
    """Configurations that are not legal, by the setting whose rule they break first."""
    reasons: Mapping[str, InputError]
    """A broken rule of each of these settings."""
    lower_bound_ns: float
    """No configuration of the space has a shorter step in the model of costs, in the group sizes that are tried."""
    solve_seconds: float
    interrupted: bool = False

    @property
    def best(self) -> Candidate | None:
        """The first row; None where nothing fits."""
        return self.ranked[0] if self.ranked else None

    @property
    def fastest(self) -> Candidate | None:
        """The configuration with the shortest step; None where nothing fits."""
        return min(self.ranked, key=lambda candidate: candidate.step_ns, default=None)

    @property
    def first_training(self) -> Training:
        """The training of the best configuration, or what is known of it where nothing fits."""
        prediction = None if self.best is None else self.best.prediction
        return self.question.on_all_devices if prediction is None else prediction.training

    @property
    def gap(self) -> float | None:
        """The largest share of the shortest step that another configuration could save."""
        return None if self.fastest is None else max(0.0, 1 - self.lower_bound_ns / self.fastest.step_ns)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All legal configurations: some are made here, for questions that are about every one."""
        return (*self.made, *(candidate for row in self.unmade for candidate in row.candidates()))

    @property
    def num_legal(self) -> int:
        """The number of legal configurations."""
        return len(self.made) + sum(row.count for row in self.unmade)

    @property
    def open_bound_ns(self) -> float:
        """A lower bound on the step of every configuration whose row is not in the ranking."""
        solved = {candidate.split for candidate in self.ranked}
        others = (candidate for candidate in self.made if candidate.split not in solved)
        return min(least_bound_ns(others, self.unmade), self.unseen_bound_ns)

    @property
    def num_solved(self) -> int:
        """Configurations of which a plan that fits is known."""
        return sum(candidate.found is not None for candidate in self.made)

    @property
    def num_refuted(self) -> int:
        """Configurations that a lower bound alone shows to be no better than the best, or not to fit."""
        step_ns = float("inf") if self.fastest is None else self.fastest.step_ns
        return num_refuted(self.made, self.unmade, step_ns)

    @property
    def is_proven(self) -> bool:
        """Whether more time cannot change the answer."""
        if self.gap is None:
            return self.lower_bound_ns == float("inf")
        return self.gap <= 2 * TOLERANCE

    def certificate(self) -> str:
        """Return one sentence on what is proven of the whole space."""
        kind = _(" with {what}", what=_("a layer in every cell")) if self.question.full_cells else ""
        fastest = self.fastest
        if fastest is None or self.gap is None:
            if self.lower_bound_ns == float("inf"):
                return _("no configuration fits{kind}", kind=kind) if self.num_legal else _("no configuration is legal")
            return _("no configuration was found in the time given")
        if self.lower_bound_ns <= 0:
            return _("nothing is proven yet of the other configurations: the time ran out first")
        if self.is_proven and fastest is self.best:
            return _(
                "no configuration of this space{kind} is faster than the first in this model (proven to 2 parts in a "
                "million): {step_ms:,.1f} ms",
                kind=kind,
                step_ms=fastest.step_ns / 1e6,
            )
        if self.is_proven:
            return _(
                "no configuration of this space{kind} is faster than the fastest row in this model (proven to 2 parts "
                "in a million): {step_ms:,.1f} ms",
                kind=kind,
                step_ms=fastest.step_ns / 1e6,
            )
        values: dict[str, object] = {"kind": kind, "bound_ms": self.lower_bound_ns / 1e6, "gap": 100 * self.gap}
        if fastest is self.best:
            return _(
                "no configuration of this space{kind} is faster than {bound_ms:,.1f} ms in this model (proven): at "
                "most {gap:.2f} % of the first could be saved",
                **values,
            )
        return _(
            "no configuration of this space{kind} is faster than {bound_ms:,.1f} ms in this model (proven): at "
            "most {gap:.2f} % of the fastest row could be saved",
            **values,
        )

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Return the first rows of the ranking and what is proven, as a few lines of text."""
        lines = []
        for number, candidate in enumerate(contenders(self.ranked, _SUMMARY_ROWS), 1):
            assert candidate.plan is not None
            lines.append(
                _(
                    "{number}. {split}, microbatch {microbatch}, {schedule}, recompute {recompute}: {step_ms:,.1f} ms",
                    number=number,
                    split=split_words(candidate.training),
                    microbatch=candidate.training.microbatch,
                    schedule=candidate.plan.schedule,
                    recompute=recompute_words(candidate.plan),
                    step_ms=candidate.step_ns / 1e6,
                )
            )
        return "\n".join([*lines, self.certificate()])
