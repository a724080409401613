"""The questions of ``run_pipeline_balance.py --guide``. [SAPP guide, Step 2]"""

from collections.abc import Callable
from datetime import datetime

import click

from evenflow.cli.text.guide_text import guide_notes
from evenflow.errors import InputError, Interrupted
from evenflow.export.dry_run_text import format_dry_runs
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, SELECT
from evenflow.profiles.memory.dry_run_guide import check_layers, check_ranks, find_dry_runs

_QUESTIONS = {
    FULL: "Do you consider full recomputation?[y/n]? ",
    SELECT: "Do you consider select recomputation?[y/n]? ",
    BOTH: "Does your communication recomputation co-work with select recomputation?[y/n]? ",
    COMM: "Do you consider extra communication recomputation?[y/n]? ",
}


def interactive_guide() -> int:
    """Ask the documented questions, print the documented block. [SAPP guide, Step 2]

    A wrong answer is asked for again. Without stages or layers there is nothing to guide to; end of input and Ctrl-C
    raise `Interrupted`.
    """
    try:
        ranks = _ask_count("Please enter the pipeline stage number (0 if none): ", check_ranks)
        layers = ranks and _ask_count(
            "Please enter the number of layers (0 if none): ", lambda count: check_layers(count, num_ranks=ranks)
        )
        if not layers:
            click.echo("there is nothing to dry-run without stages and layers", err=True)
            return 0
        kinds = [kind for kind, question in _QUESTIONS.items() if _ask_yes(question)]
    except click.Abort:
        raise Interrupted("\n" + _("interrupted: some questions were not answered")) from None
    dry_runs = find_dry_runs(ranks, layers, kinds)
    for text in format_dry_runs(dry_runs.rounds):
        click.echo(f"{_now()} - pipeline_balance - OUTPUT - {text}")
    click.echo(f"\n{guide_notes(dry_runs, asked_ranks=ranks)}", err=True)
    return 0


def _ask_count(question: str, check: Callable[[int], None]) -> int:
    """Ask for a number that `check` accepts; return 0 for 0, nothing or ``*``."""
    while True:
        answer = _ask(question)
        if answer in ("", "*", "0"):
            return 0
        if not (answer.isascii() and answer.isdecimal() and len(answer) < 10):
            click.echo(f"{answer!r} is not a whole number", err=True)
            continue
        try:
            check(int(answer))
        except InputError as error:
            click.echo(str(error), err=True)
            continue
        return int(answer)


def _ask_yes(question: str) -> bool:
    while True:
        answer = _ask(question).lower()
        if answer in ("y", "yes", "1"):
            return True
        if answer in ("", "n", "no", "0"):
            return False
        click.echo("answer y or n", err=True)


def _ask(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False, prompt_suffix="")
    return answer.strip()


def _now() -> str:
    """Return the time as the balancer's log shows it."""
    now = datetime.now()
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
