"""The verb ``evenflow export``."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from evenflow.asking import asked, optional
from evenflow.cli.exit_status import INFEASIBLE
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.targets.empty_cells import may_be_empty
from evenflow.cli.shared.targets.export_fields import fitted_fields, written_fields
from evenflow.cli.shared.targets.fitted_plan import fit_plan, read_planned
from evenflow.cli.shared.targets.target_options import VERSION, FittingOptions, TargetName
from evenflow.cli.shared.targets.target_text import (
    answer_text,
    over_limit_text,
    trained_notes,
    written_for,
    written_text,
)
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.target import Piece, Target

_COMMENTED = ("shell", "yaml", "toml", "python")
"""Syntaxes in which a first line may be a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What ``evenflow export`` is asked for: an option for each field."""

    target: Target = field(
        metadata=asked(
            option="--to",
            kind=TargetName(),
            metavar="NAME",
            help="Framework that the plan is written for, such as megatron; a wrong name is answered with all.",
        )
    )
    asked_version: str | None = field(default=None, metadata=VERSION)
    fitting: FittingOptions = field(metadata=asked(group=FittingOptions))
    output_folder: Path | None = optional(
        "--output-folder", letter="-o", metavar="DIR", help="Write the pieces that are whole files into this folder."
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@options_as("request", ExportOptions)
@may_be_reproducible
def export(plan_file: str, request: ExportOptions) -> int:
    """Write a plan for a framework: flags, a fragment of its configuration, files.

    PLAN.json is what --json of evenflow plan, evenflow auto or evenflow tune wrote; degrees of parallelism go with the
    pipeline, to every framework but torch. A framework that cannot run the plan gets the nearest one that it
    can, and every loss is named with its price in time and memory.

    Exit status: 0 written, 2 bad input, also a framework that runs nothing of the kind, 3 over the memory limit.

    \b
    Examples:
      evenflow export plan.json --to megatron
      evenflow export plan.json --to torchtitan --version-of 0.2.2 --output-folder titan
    """
    target, output_folder = request.target, request.output_folder
    version = target.version(request.asked_version)
    planned = read_planned(plan_file, request.fitting)
    inputs = request.fitting.inputs(plan_file)
    outputs = Outputs(paths_of(request), inputs=inputs, overwrite=request.overwrite)
    if isinstance(planned.degrees, MissingDegrees) and target.write_degrees is not None:
        raise _refused(planned.degrees, target, place=plan_file)
    found = fit_plan(
        planned,
        target,
        version,
        time_limit_s=TimeLeft.of_command(request.fitting.time_limit).seconds,
        allow_empty=may_be_empty(request.fitting.allow_empty, target, version),
    )
    if found.is_over and not request.fitting.over_limit:
        click.echo(over_limit_text(found, target, version), err=True)
        return INFEASIBLE
    written = written_for(found.plan, planned.degrees, target, version)
    written = replace(written, notes=(*written.notes, *trained_notes(planned.network, target)))
    files = [piece for piece in written.pieces if piece.file_name and output_folder is not None]
    pieces = Outputs(
        {_option(piece): (output_folder or Path()) / piece.file_name for piece in files},
        inputs={**inputs, **paths_of(request)},
        overwrite=request.overwrite,
        without_mark=tuple(_option(piece) for piece in files if piece.syntax not in _COMMENTED),
    )
    outputs.write_json(lambda: fitted_fields(found, target, version) | written_fields(written))
    for piece in files:
        pieces.write(_option(piece), partial(str, piece.text), mark_first_line=True)
    has_degrees = isinstance(planned.degrees, PlannedDegrees) and target.write_degrees is not None
    answer = answer_text(found, target, version, has_degrees=has_degrees)
    pieces.say(answer, written_text(written), outputs.sentence)
    if output_folder is not None and not files:
        click.echo(_("note: all that {title} takes is pasted, and no file is written", title=target.title), err=True)
    return 0


def _refused(missing: MissingDegrees, target: Target, *, place: str) -> InputError:
    """Return why a plan has no degrees, and what can be done."""
    remedy = _("run it with evenflow run, or plan again with --fix, such as --fix tensor=1,zero=1")
    if missing.plain:
        remedy = _(
            "{remedy}; the shortest plain plan is {name}, {step_ms:,.3f} ms a step",
            remedy=remedy,
            name=missing.plain,
            step_ms=missing.plain_ms,
        )
    return InputError(
        value=missing.reason,
        rule=_("must have stages that are all sharded alike for {title}", title=target.title),
        place=place,
        remedy=remedy,
    )


def _option(piece: Piece) -> str:
    return _("the file {name}", name=piece.file_name)
