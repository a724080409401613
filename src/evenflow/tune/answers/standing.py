"""Where a training that somebody runs would stand among all configurations."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import isfinite

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Training
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.alone import solved
from evenflow.tune.axes import Axis, value_of
from evenflow.tune.candidate import Candidate, PlannedStep, Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.question import TuningQuestion
from evenflow.tune.space import most_of, refusals
from evenflow.tune.tuned import Tuned

_SOLVE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A training under its own plan, beside the ranking."""

    candidate: Candidate
    """With its step, also where it does not fit."""
    rank: int
    """One more than the splits that are faster."""
    last_rank: int
    """The same with those of which the bounds leave it open; the rank for certain where both are equal."""
    of: int
    """Splits that may fit, and itself."""
    outside: InputError | None
    """What of it is not in the space; None where it is."""
    improved: Candidate | None
    """The same configuration with the layers and recomputation that are best; None where none is known that fits."""

    @property
    def fits(self) -> bool:
        """Whether every rank stays within its memory, with the probability that the question asks for."""
        assert self.candidate.found is not None
        return self.candidate.pricing.question.fits(self.candidate.found.rank_bytes)


def standing(tuned: Tuned, training: Training, plan: Plan, time_left: TimeLeft) -> Standing:
    """Return where a training under a plan ranks among all configurations, as far as time allows to find out."""
    question = tuned.question
    pricing = tuned.made[0].pricing if tuned.made else Pricing(question=question)
    own = priced(pricing, training, plan)
    outside, improved = outside_space(question, training), None
    if outside is None and not time_left.is_over:
        improved = solved(question, training, time_limit_s=time_left.at_most(_SOLVE_SECONDS).seconds)
    faster, open_ones, of = _counted(tuned.candidates, own.step_ns, time_left)
    return Standing(
        candidate=own,
        rank=1 + faster,
        last_rank=1 + faster + open_ones,
        of=1 + of,
        outside=outside,
        improved=None if improved is None or improved.found is None else improved,
    )


def priced(pricing: Pricing, training: Training, plan: Plan) -> Candidate:
    """Return a training under a plan with its step, whether it fits or not."""
    prediction = pricing.predicted(training, plan)
    planned = PlannedStep(
        plan=plan,
        step_ns=prediction.step_ns,
        parts=prediction.parts,
        rank_bytes=tuple(rank.total_bytes for rank in prediction.memory),
    )
    return Candidate(training=training, pricing=pricing, found=planned)


def _counted(candidates: Iterable[Candidate], step_ns: float, time_left: TimeLeft) -> tuple[int, int, int]:
    """Return how many splits are faster than a step, how many of them are undecided, and how many may fit.

    First plans are made until it is known, as far as there is time.
    """
    rows: dict[Hashable, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if isfinite(candidate.lower_bound_ns):
            rows[candidate.split].append(candidate)
    faster = still_open = 0
    for row in rows.values():
        row.sort(key=lambda candidate: candidate.lower_bound_ns)
        if any(candidate.step_ns < step_ns for candidate in row):
            faster += 1
            continue
        may_be = [candidate for candidate in row if candidate.lower_bound_ns < step_ns]
        if any(_is_faster(candidate, step_ns, time_left) for candidate in may_be):
            faster += 1
        elif may_be:
            still_open += 1
    return faster, still_open, len(rows)


def _is_faster(candidate: Candidate, step_ns: float, time_left: TimeLeft) -> bool:
    """Return whether the first plan of a configuration is faster."""
    if candidate.found is not None or time_left.is_over:
        return False
    planned = coarse(candidate.pricing, candidate.training)
    return planned is not None and planned.step_ns < step_ns


def outside_space(question: TuningQuestion, training: Training) -> InputError | None:
    """Return why a training is not in the space of a question."""
    broken = next(refusals(question, training), None)
    if broken is not None:
        return broken
    most = most_of(question)
    for axis in Axis:
        value = value_of(training, axis)
        if axis is Axis.SCHEDULE:
            if training.degrees.pipeline > 1 and value not in question.schedules:
                rule = _("must be one of {names}, which are tried", names=", ".join(question.schedules))
                return InputError(value=value, rule=rule, place=axis)
        elif str(question.fixed.get(axis, value)) != str(value):
            rule = _("must be {value}, as decided", value=question.fixed[axis])
            return InputError(value=value, rule=rule, place=axis)
        elif axis in most and int(value) > most[axis]:
            return InputError(value=value, rule=_("must be at most {most}", most=most[axis]), place=axis)
    return None
