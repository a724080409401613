"""The questions of ``run_pipeline_balance.py --guide``. [SAPP guide, Step 2]"""

from collections.abc import Callable
from datetime import datetime

import click

from evenflow.cli.sapp.terminal_questions import ask_value, ask_yes, whole_number
from evenflow.cli.text.guide_text import guide_notes
from evenflow.errors import Interrupted
from evenflow.export.dry_run_text import format_dry_runs
from evenflow.language import _, looked_up, to_translate
from evenflow.model import BOTH, COMM, FULL, SELECT
from evenflow.profiles.memory.dry_run_guide import check_layers, check_ranks, find_dry_runs

_QUESTIONS = {
    FULL: to_translate("Do you consider full recomputation?[y/n]? "),
    SELECT: to_translate("Do you consider select recomputation?[y/n]? "),
    BOTH: to_translate("Does your communication recomputation co-work with select recomputation?[y/n]? "),
    COMM: to_translate("Do you consider extra communication recomputation?[y/n]? "),
}


def interactive_guide() -> int:
    """Ask the documented questions, print the documented block. [SAPP guide, Step 2]

    A wrong answer is asked for again. Without stages or layers there is nothing to guide to; end of input and Ctrl-C
    raise `Interrupted`.
    """
    try:
        ranks = _ask_count(_("Please enter the pipeline stage number (0 if none): "), check_ranks)
        layers = ranks and _ask_count(
            _("Please enter the number of layers (0 if none): "), lambda count: check_layers(count, num_ranks=ranks)
        )
        if not layers:
            click.echo(_("there is nothing to dry-run without stages and layers"), err=True)
            return 0
        kinds = [kind for kind, question in _QUESTIONS.items() if ask_yes(looked_up(question))]
    except click.Abort:
        raise Interrupted("\n" + _("interrupted: some questions were not answered")) from None
    dry_runs = find_dry_runs(ranks, layers, kinds)
    for text in format_dry_runs(dry_runs.rounds):
        click.echo(f"{_now()} - pipeline_balance - OUTPUT - {text}")
    click.echo(f"\n{guide_notes(dry_runs, asked_ranks=ranks)}", err=True)
    return 0


def _ask_count(question: str, check: Callable[[int], None]) -> int:
    """Ask for a number that `check` accepts; return 0 for 0, nothing or ``*``."""

    def read(answer: str) -> int:
        count = whole_number(answer)
        if count:
            check(count)
        return count

    return ask_value(question, read, default=0)


def _now() -> str:
    """Return the time as the balancer's log shows it."""
    now = datetime.now()
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
