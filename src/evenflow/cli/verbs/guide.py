"""The verb ``evenflow guide``, and the questions of ``run_pipeline_balance.py --guide``."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.training_yaml import read_training_yaml
from evenflow.cli.text.guide_text import guide_notes
from evenflow.errors import InputError, Interrupted
from evenflow.export.dry_run_text import format_dry_runs, format_init_start
from evenflow.export.results.guide_fields import guide_fields
from evenflow.export.results.json_text import format_object
from evenflow.export.train_yaml import apply_plan
from evenflow.model import BOTH, COMM, FULL, NONE, SELECT, Plan
from evenflow.model.recompute import KNOWN_KINDS
from evenflow.profiles.memory.dry_run_guide import check_layers, check_ranks, find_dry_runs

_QUESTIONS = {
    FULL: "Do you consider full recomputation?[y/n]? ",
    SELECT: "Do you consider select recomputation?[y/n]? ",
    BOTH: "Does your communication recomputation co-work with select recomputation?[y/n]? ",
    COMM: "Do you consider extra communication recomputation?[y/n]? ",
}


@click.command()
@options.RANKS
@click.option("--layers", type=options.COUNT, required=True, help="Body layers of the model.")
@click.option(
    "--recompute",
    metavar="KINDS",
    required=True,
    help=f"Recompute kinds to plan with later, of {', '.join(KNOWN_KINDS)}; or none.",
)
@click.option("--apply", "train_yaml", type=options.FILE, metavar="FILE.yaml", help="Write this training YAML a round.")
@click.option("--output-folder", type=options.FILE, metavar="DIR", help="For --apply; else beside FILE.yaml.")
@click.option("--init-file", type=options.FILE, metavar="FILE", help="Write the start of an init file.")
@options.JSON
def guide(
    ranks: int,
    layers: int,
    recompute: str,
    train_yaml: Path | None,
    output_folder: Path | None,
    init_file: Path | None,
    json_file: Path | None,
) -> int:
    """Find the dry runs whose memory peaks determine the memory of every part, in as few rounds as possible.

    KINDS is a list such as select,comm,both. --apply writes FILE.round1.yaml and so on: FILE.yaml with what the round
    sets, otherwise unchanged. The init file takes the peaks that evenflow collect-peaks prints, at its end.

    \b
    Examples:
      evenflow guide --ranks 16 --layers 96 --recompute select,comm,both
      evenflow guide --ranks 4 --layers 80 --recompute full --apply train.yaml --init-file init.yaml
    """
    if output_folder is not None and train_yaml is None:
        raise InputError(
            value=str(output_folder), rule="the folder is for the files of --apply", place="--output-folder"
        )
    found = find_dry_runs(ranks, layers, _kinds(recompute))
    applied = {} if train_yaml is None else _applied(train_yaml, output_folder or train_yaml.parent, found.rounds)
    outputs: dict[str, Path | None] = {f"--apply, round {number}": path for number, (path, _) in applied.items()}
    check_outputs(
        {**outputs, "--init-file": init_file, "--json": json_file}, inputs={"the file of --apply": train_yaml}
    )
    configs = [path for path, _ in applied.values()]
    notes = guide_notes(found, asked_ranks=ranks, configs=configs, init_file=init_file)
    click.echo("\n".join([*format_dry_runs(found.rounds), "", notes]))
    for number, (path, text) in applied.items():
        write_text(path, text, option=f"--apply, round {number}")
    if init_file is not None:
        write_text(init_file, format_init_start(found.rounds), option="--init-file")
    if json_file is not None:
        write_text(json_file, format_object(guide_fields(found)), option="--json")
    for written in (*configs, init_file, json_file):
        if written is not None:
            click.echo(f"wrote {written}", err=True)
    return 0


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
        raise Interrupted("\ninterrupted: some questions were not answered") from None
    found = find_dry_runs(ranks, layers, kinds)
    for text in format_dry_runs(found.rounds):
        click.echo(f"{_now()} - pipeline_balance - OUTPUT - {text}")
    click.echo(f"\n{guide_notes(found, asked_ranks=ranks)}", err=True)
    return 0


def _kinds(text: str) -> list[str]:
    """The kinds of ``--recompute``."""
    if text.strip() == NONE:
        return []
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KNOWN_KINDS:
            rule = f"a list of {', '.join(KNOWN_KINDS)}, separated by commas, or {NONE}"
            raise InputError(value=kind, rule=rule, place="--recompute")
    return kinds


def _applied(train_yaml: Path, folder: Path, rounds: tuple[Plan, ...]) -> dict[int, tuple[Path, str]]:
    """Path and text of the training YAML by number of the round."""
    text = read_training_yaml(train_yaml)
    return {
        number: (
            folder / f"{train_yaml.stem}.round{number}{train_yaml.suffix}",
            apply_plan(text, file=str(train_yaml), plan=plan),
        )
        for number, plan in enumerate(rounds, start=1)
    }


def _ask_count(question: str, check: Callable[[int], None]) -> int:
    """A number that `check` accepts; 0 for 0, nothing or ``*``."""
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
    """The time as the balancer's log shows it."""
    now = datetime.now()
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
