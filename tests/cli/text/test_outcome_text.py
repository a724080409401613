"""What Python prints of an outcome is what the verb answers."""

import re

import evenflow
from evenflow.units import MEGABYTE

OF_A_COMMAND = re.compile(r"^(next|shorter): ")


def said(stdout: str) -> list[str]:
    """The lines of an answer, without the time it took, what is next, and the neighbours that the verb tries."""
    lines = [re.sub(r" \(solved in [\d.]+ s\)$", "", line) for line in stdout.splitlines()]
    return [line for line in lines if line and not OF_A_COMMAND.match(line)]


def test_an_outcome_prints_the_answer_of_the_verb(folder, evenflow):
    answer = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2, "--memory", "230MB")
    own = str(planned(folder, 230))
    assert said(own) == said(answer.stdout)
    assert len(said(own)) > 10


def test_an_outcome_without_a_plan_prints_why(folder, evenflow):
    answer = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2, "--memory", "100MB")
    for line in str(planned(folder, 100)).splitlines():
        assert line in answer.stderr


def planned(folder, megabytes: int) -> "evenflow.Outcome":
    limit = megabytes * MEGABYTE
    return evenflow.plan(folder / "tiny.json", num_ranks=2, num_microbatches=2, memory_limit_bytes=limit)


def test_the_best_of_all_prints_its_table_too(folder):
    best = evenflow.plan_best(folder / "tiny.json", num_ranks=2, num_microbatches=4, time_limit_s=20)
    assert best.certificate() in str(best)
    assert str(best).startswith("tiny: 4 layers on 2 ranks")
