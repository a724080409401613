"""The verb ``evenflow apply``."""

from dataclasses import dataclass, field
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
from evenflow.cli.shared.targets.export_fields import fitted_fields
from evenflow.cli.shared.targets.fitted_plan import fit_plan, read_planned
from evenflow.cli.shared.targets.script_inputs import check_scripts, may_read_scripts
from evenflow.cli.shared.targets.target_file import TargetFile, changed_lines
from evenflow.cli.shared.targets.target_options import VERSION, FittingOptions, TargetName
from evenflow.cli.shared.targets.target_text import (
    answer_text,
    beside_text,
    over_limit_text,
    pipeline_alone_note,
    trained_notes,
)
from evenflow.language import _
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.target import Target

_FILE = "FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """What ``evenflow apply`` is asked for beside its files: an option for each field."""

    named: Target | None = optional(
        "--to",
        kind=TargetName(),
        metavar="NAME",
        help="Framework whose file it is.  [default: the one that is recognised]",
    )
    asked_version: str | None = field(default=None, metadata=VERSION)
    in_place: bool = optional(
        "--in-place", default=False, help="Edit FILE itself instead of writing another beside it."
    )
    fitting: FittingOptions = field(metadata=asked(group=FittingOptions))
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.argument("file", metavar=_FILE, type=options.FILE)
@options_as("request", ApplyOptions)
@may_be_reproducible
@may_read_scripts
def apply(plan_file: str, file: Path, request: ApplyOptions) -> int:
    """Put a plan into the configuration that you have: FILE.planned beside FILE, otherwise byte for byte the same.

    Whose configuration FILE is, is recognised. The lines that change are shown. A framework that cannot run the plan
    gets the nearest one that it can, and every loss is named with its price in time and memory.

    Exit status: 0 written, 2 bad input, also a framework that runs nothing of the kind, 3 over the memory limit.

    \b
    Examples:
      evenflow apply plan.json train.yaml
      evenflow apply plan.json pretrain.sh --to megatron --in-place
    """
    own = TargetFile.read(file, request.named, option="--to")
    target = own.target
    version = target.version(request.asked_version) if request.asked_version else target.version_of(own.text, str(file))
    planned = read_planned(plan_file, request.fitting)
    path = file if request.in_place else own.beside("planned")
    inputs = {
        **request.fitting.inputs(plan_file),
        **({} if request.in_place else {_("the file that it is made from"): file}),
    }
    outputs = Outputs(
        {_FILE: path, **paths_of(request)},
        inputs=inputs,
        overwrite=request.overwrite,
        edited=(_FILE,) if request.in_place else (),
        without_mark=() if own.has_comments else (_FILE,),
        like={_FILE: file},
    )
    fitted_plan = fit_plan(
        planned,
        target,
        version,
        time_limit_s=TimeLeft.of_command(request.fitting.time_limit).seconds,
        allow_empty=may_be_empty(request.fitting.allow_empty, target, version),
    )
    if fitted_plan.is_over and not request.fitting.over_limit:
        click.echo(over_limit_text(fitted_plan, target, version), err=True)
        return INFEASIBLE
    after = own.applied(fitted_plan.plan)
    check_scripts()
    changes = changed_lines(own.text, after, old=file, new=path) or _("no line changes: the plan is there already")
    beside = beside_text(target.written(fitted_plan.plan, version))
    outputs.write(_FILE, lambda: after, mark_first_line=True)
    outputs.write_json(lambda: {**fitted_fields(fitted_plan, target, version), "file": str(path)})
    notes = [] if planned.degrees is None else [pipeline_alone_note(target, plan_file=plan_file)]
    shown = "\n".join(_("note: {note}", note=note) for note in (*notes, *trained_notes(planned.network, target)))
    outputs.say(answer_text(fitted_plan, target, version), changes, beside, shown)
    return 0
