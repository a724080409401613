"""Why there is no ranking, and what would give one."""

from dataclasses import replace

from evenflow.cli.text.tune.nothing_text import needed_text
from evenflow.errors import InputError
from evenflow.tune.answers.infeasible import Needed
from evenflow.tune.tuned import Tuned
from tests.tune.questions import question

NOTHING = Tuned(
    question=question(), ranked=(), made=(), excluded={"expert": 2, "tensor": 12},
    reasons={"tensor": InputError(value=3, rule="must divide the 16 heads", place="tensor", remedy="use 2")},
    lower_bound_ns=float("inf"), solve_seconds=0.1,
)  # fmt: skip


def test_which_rule_excludes_most_and_what_would_do() -> None:
    needed = Needed(bytes_at_least=17 * 2**30, memory_bytes=18 * 2**30, devices=16)
    lines = needed_text(NOTHING, needed).splitlines()
    assert " ".join(lines[:-3]) == (
        "the rules of tensor exclude most, 12 of 14 combinations; for example tensor must divide the 16 heads, got 3; "
        "use 2"
    )
    assert lines[-3:] == [
        "on as many devices it would fit with --memory 18432MB (18.0 GB)",
        "nothing fits into less than 17.0 GB on each of them",
        "with as much memory it would fit on --gpus 16",
    ]


def test_nothing_that_would_do() -> None:
    found = needed_text(NOTHING, Needed(bytes_at_least=0, memory_bytes=None, devices=None)).splitlines()
    assert found[-1] == "neither more memory nor more devices were found that would do: change what is decided"


def test_one_rule_may_exclude_all() -> None:
    nothing = replace(NOTHING, excluded={"tensor": 12})
    (line, *_others) = needed_text(nothing, Needed(bytes_at_least=0, memory_bytes=None, devices=None)).splitlines()
    assert line.startswith("the rules of tensor exclude all 12 combinations; for example tensor must divide")


def test_what_there_was_no_time_for_is_not_said_to_be_impossible() -> None:
    found = needed_text(NOTHING, Needed(bytes_at_least=0, memory_bytes=None, devices=None, had_time=False))
    assert found.splitlines()[-1] == "what would do was not found in the time given"
