"""A ranking with the configurations that were solved for its answers: what is shown beside it never beats it."""

from collections.abc import Iterable
from dataclasses import replace

from evenflow.tune.answers.standing import outside_space
from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.tuned import Tuned


def overtaken(tuned: Tuned, others: Iterable[Candidate]) -> Tuned:
    """Return the ranking with those of `others` that are faster than all of its rows: of its space, and within memory.

    The same ranking where there are none.
    """
    best_ns = float("inf") if tuned.fastest is None else tuned.fastest.step_ns
    faster = [other for other in others if other.step_ns < best_ns and _may_be_first(tuned, other)]
    if not faster:
        return tuned
    pricing = tuned.made[0].pricing if tuned.made else Pricing(question=tuned.question)
    ranked = {candidate.split: candidate for candidate in tuned.ranked}
    for other in faster:
        row = ranked.get(other.split)
        if row is None or other.step_ns < row.step_ns:
            own = next((candidate for candidate in tuned.made if candidate.training == other.training), None)
            own = own or Candidate(training=other.training, pricing=pricing)
            own.found, own.status = other.found, own.status or other.status
            ranked[other.split] = own
    return replace(tuned, ranked=tuple(sorted(ranked.values(), key=lambda candidate: candidate.step_ns)))


def _may_be_first(tuned: Tuned, other: Candidate) -> bool:
    assert other.found is not None
    question = tuned.question
    return (
        other.training.degrees.devices == question.devices
        and question.fits(other.found.rank_bytes)
        and outside_space(question, other.training) is None
    )
