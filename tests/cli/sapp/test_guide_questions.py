import functools
import re

import click
import pytest
from click.testing import CliRunner, Result

from evenflow.cli.exit_status import exit_status
from evenflow.cli.sapp.guide_questions import interactive_guide
from evenflow.export.dry_run_text import format_dry_runs
from evenflow.profiles.memory.dry_run_guide import find_dry_runs

GUIDE_TRANSCRIPT = """\
Please enter the pipeline stage number (0 if none): 16
Please enter the number of layers (0 if none): 96
Do you consider full recomputation?[y/n]? n
Do you consider select recomputation?[y/n]? y
Does your communication recomputation co-work with select recomputation?[y/n]? y
Do you consider extra communication recomputation?[y/n]? y
2025-02-17 21:20:12,683 - pipeline_balance - OUTPUT - Please dryrun following config, 1 round(s) is needed
2025-02-17 21:20:12,684 - pipeline_balance - OUTPUT - for round 1, please dryrun config:
        offset: [0, 0, -4, -2, 2, -2, -2, 10, -2, -2, -2, 0, 2, 2, 0, 0]
        recompute: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        select_recompute: [5, 5, 2, 1, 4, 3, 2, 14, 4, 4, 4, 6, 1, 5, 5, 6]
        select_comm_recompute: [0, 5, 0, 1, 1, 4, 2, 2, 1, 3, 2, 6, 4, 5, 5, 1]
"""


cached_guide = functools.cache(find_dry_runs)


@pytest.fixture(autouse=True)
def _search_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions search once for the same sizes and kinds."""
    monkeypatch.setattr(
        "evenflow.cli.sapp.guide_questions.find_dry_runs",
        lambda ranks, layers, kinds: cached_guide(ranks, layers, frozenset(kinds)),
    )


def without_numbers(text: str) -> str:
    """A transcript with `TIME` for times and the length for lists."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", "TIME", text)
    return re.sub(r"\[-?\d[-\d, ]*\]", lambda numbers: f"[{numbers[0].count(',') + 1}]", text)


def block(ranks: int, layers: int, kinds: set[str]) -> str:
    return "\n".join(format_dry_runs(cached_guide(ranks, layers, frozenset(kinds)).rounds))


def ask(*answers: str) -> Result:
    """The questions, with these answers and then the end of the input."""

    @click.command()
    @click.pass_context
    def command(context: click.Context) -> None:
        context.exit(exit_status(interactive_guide))

    return CliRunner().invoke(command, input="".join(f"{answer}\n" for answer in answers))


def test_the_transcript_is_that_of_the_guide():
    result = ask("16", "96", "n", "y", "y", "y")
    assert result.exit_code == 0
    assert without_numbers(result.stdout) == without_numbers(GUIDE_TRANSCRIPT)
    (plan,) = cached_guide(16, 96, frozenset({"select", "comm", "both"})).rounds
    assert f"offset: {[count - 6 for count in plan.layers[0]]}" in result.stdout


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (("y", "n", "n", "n"), {"full"}),
        (("1", "Yes", "", "no"), {"full", "select"}),
        (("n", "n", "n", "Y"), {"comm"}),
        (("", "", "", ""), set()),
    ],
)
def test_each_kind_has_its_question(answers, kinds):
    result = ask("8", "40", *answers)
    assert "\n".join(result.stdout.splitlines()[-4:]) in block(8, 40, kinds)


def test_wrong_answers_are_asked_for_again():
    result = ask("many", "-3", "1", "4", "4", "2.5", "9", "maybe", "n", "n", "n", "n")
    assert result.exit_code == 0
    assert result.stdout.count("stage number") == 4
    assert result.stdout.count("number of layers") == 3
    assert result.stdout.count("full recomputation") == 2
    for reason in (
        "whole number, got 'many'",
        "whole number, got '-3'",
        "2 to 1000",
        "cannot be told",
        "got '2.5'",
        "y or n",
    ):
        assert reason in result.stderr


@pytest.mark.parametrize("answers", [("0",), ("",), ("*",), ("16", "0")])
def test_nothing_to_guide_to(answers):
    result = ask(*answers)
    assert (result.exit_code, result.stderr) == (0, "there is nothing to dry-run without stages and layers\n")
    assert "round" not in result.stdout


@pytest.mark.parametrize("answers", [(), ("16",), ("16", "96", "y")])
def test_the_end_of_the_input_ends_it(answers):
    result = ask(*answers)
    assert (result.exit_code, result.stderr.strip()) == (130, "interrupted: some questions were not answered")
    assert "round" not in result.stdout


def test_few_stages_are_measured_with_more():
    result = ask("2", "32", "y", "n", "n", "n")
    assert "offset: [6]" in without_numbers(result.stdout)
    assert "pipeline_stage 6" in result.stderr
    assert "RANK_SIZE is 6/2 of your devices" in result.stderr
