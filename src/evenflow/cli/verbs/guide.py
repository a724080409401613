"""The verb ``evenflow guide``."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from evenflow.asking import asked, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.targets.target_file import TargetFile
from evenflow.cli.text.guide_text import guide_notes
from evenflow.errors import InputError
from evenflow.export.dry_run_text import format_dry_runs, format_init_start, with_dry_runs
from evenflow.export.results.dry_run_fields import guide_fields
from evenflow.fields import read_text
from evenflow.language import _
from evenflow.model import KNOWN_KINDS, NONE
from evenflow.profiles.memory.dry_run_guide import Guide, find_dry_runs
from evenflow.questions import NUM_RANKS
from evenflow.ranges import LAYERS
from evenflow.targets.frameworks.mindformers.target import TARGET as MINDFORMERS


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideOptions:
    """What ``evenflow guide`` is asked for: an option for each field."""

    ranks: int = field(metadata=NUM_RANKS)
    layers: int = field(metadata=asked(LAYERS, option="--layers", help="Body layers of the model."))
    recompute: str = field(
        metadata=asked(
            option="--recompute",
            metavar="KINDS",
            help=f"Recompute kinds to plan with later: a list of {', '.join(KNOWN_KINDS)}, or none.",
        )
    )
    train_yaml: Path | None = optional("--apply", metavar="FILE.yaml", help="Write this training YAML for each round.")
    output_folder: Path | None = optional(
        "--output-folder", metavar="DIR", help="Folder for the files of --apply.  [default: that of FILE.yaml]"
    )
    init_file: Path | None = optional(
        "--init-file", is_written=True, help="Write the start of an init file, or the dry runs into one that is there."
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@options_as("request", GuideOptions)
def guide(request: GuideOptions) -> int:
    """Find the dry runs whose memory peaks determine the memory of every part, in as few rounds as possible.

    KINDS is a list such as select,comm,both. --apply writes FILE.round1.yaml and so on: FILE.yaml with what the round
    sets, otherwise unchanged. The init file takes the peaks that evenflow collect-peaks prints, at its end; in one that
    is there only the dry runs change, and none that has the peaks of others is changed.

    \b
    Examples:
      evenflow guide --ranks 16 --layers 96 --recompute select,comm,both
      evenflow guide --ranks 4 --layers 80 --recompute full --apply train.yaml --init-file init.yaml
    """
    train_yaml, output_folder, init_file = request.train_yaml, request.output_folder, request.init_file
    if output_folder is not None and train_yaml is None:
        raise InputError(
            rule=_("must come with --apply, whose files it is for"),
            place="--output-folder",
            remedy=_("add --apply"),
        )
    dry_runs = find_dry_runs(request.ranks, request.layers, _kinds(request.recompute))
    rounds = {f"--apply, round {number}": plan for number, plan in enumerate(dry_runs.rounds, start=1)}
    train = None if train_yaml is None else TargetFile.read(train_yaml, MINDFORMERS, option="--apply")
    texts = {} if train is None else {name: train.applied(plan) for name, plan in rounds.items()}
    configs = {
        name: train.beside(f"round{number}", folder=output_folder)
        for number, name in enumerate(rounds, start=1)
        if train is not None
    }
    is_edited = init_file is not None and init_file.is_file() and not request.overwrite
    outputs = Outputs(
        {**configs, **paths_of(request)},
        inputs={_("the file of --apply"): train_yaml},
        overwrite=request.overwrite,
        edited=("--init-file",),
        formats={} if is_edited else {"--init-file": ".yaml"},
        without_mark=() if train is None or train.has_comments else tuple(configs),
    )
    init_text = _init_text(None if request.overwrite else init_file, dry_runs)
    notes = guide_notes(dry_runs, asked_ranks=request.ranks, configs=list(configs.values()), init_file=init_file)
    click.echo("\n".join([*format_dry_runs(dry_runs.rounds), "", notes]))
    for name, text in texts.items():
        outputs.write(name, partial(str, text), mark_first_line=True)
    outputs.write("--init-file", lambda: init_text)
    outputs.write_json(lambda: guide_fields(dry_runs))
    outputs.say(err=True)
    return 0


def _init_text(path: Path | None, dry_runs: Guide) -> str:
    """Return the init file: the one at `path` with these dry runs, or a new one."""
    if path is None or not path.is_file():
        return format_init_start(dry_runs.rounds)
    return with_dry_runs(read_text(path), dry_runs.rounds, file=str(path))


def _kinds(text: str) -> list[str]:
    """Return the kinds of ``--recompute``."""
    if text.strip() == NONE:
        return []
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KNOWN_KINDS:
            rule = _(
                "must be a list of {names}, separated by commas, or {none}", names=", ".join(KNOWN_KINDS), none=NONE
            )
            raise InputError(value=kind, rule=rule, place="--recompute")
    return kinds
