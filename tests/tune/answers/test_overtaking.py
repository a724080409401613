"""Configurations that were solved for answers: a ranking whose first row they beat has them in their place."""

from dataclasses import replace

from evenflow.tune.answers.overtaking import overtaken
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate, PlannedStep
from evenflow.tune.tuned import Tuned
from tests.tune import rankings


def solved(other: Candidate, *, step_ns: float, rank_bytes: int | None = None) -> Candidate:
    """The configuration with another step, and another peak where it is given."""
    assert other.found is not None
    held = other.found.rank_bytes if rank_bytes is None else (rank_bytes,)
    planned: PlannedStep = replace(other.found, step_ns=step_ns, rank_bytes=held)
    training = replace(other.training, schedule=other.training.schedule or "1f1b")
    return Candidate(training=training, pricing=other.pricing, found=planned)


def steps(ranking: Tuned) -> list[float]:
    return [candidate.step_ns for candidate in ranking.ranked]


def test_a_faster_one_is_the_first_row() -> None:
    ranking = rankings.ranking()
    first, second, *_ = ranking.ranked
    found = overtaken(ranking, [solved(second, step_ns=0.5 * first.step_ns)])
    assert found.best is not None
    assert found.best.split == second.split
    assert len(found.ranked) == len(ranking.ranked)
    assert steps(found) == sorted(steps(found))


def test_a_slower_one_changes_nothing() -> None:
    ranking = rankings.ranking()
    assert ranking.best is not None
    assert overtaken(ranking, [solved(ranking.best, step_ns=ranking.best.step_ns)]) is ranking


def test_one_over_the_memory_or_outside_of_the_space_changes_nothing() -> None:
    ranking = rankings.ranking()
    first = ranking.best
    assert first is not None
    step_ns, limit = 0.5 * first.step_ns, ranking.question.memory_limit_bytes
    assert overtaken(ranking, [solved(first, step_ns=step_ns, rank_bytes=limit + 10)]) is ranking
    assert overtaken(ranking, [solved(first, step_ns=step_ns, rank_bytes=limit)]) is not ranking
    decided = replace(ranking, question=replace(ranking.question, fixed={Axis.TENSOR: 64}))
    assert overtaken(decided, [solved(first, step_ns=step_ns)]) is decided
    halved = replace(ranking, question=replace(ranking.question, devices=ranking.question.devices // 2))
    assert overtaken(halved, [solved(first, step_ns=step_ns)]) is halved


def test_where_nothing_was_found_what_the_user_runs_is_first() -> None:
    ranking = rankings.ranking()
    first = ranking.best
    assert first is not None
    nothing = replace(ranking, ranked=(), made=())
    found = overtaken(nothing, [solved(first, step_ns=first.step_ns)])
    assert [candidate.split for candidate in found.ranked] == [first.split]
