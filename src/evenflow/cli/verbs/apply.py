"""The verb ``evenflow apply``."""

from pathlib import Path

import click

from evenflow.cli.exit_status import INFEASIBLE
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.targets import target_options
from evenflow.cli.shared.targets.export_fields import fitted_fields
from evenflow.cli.shared.targets.fitted_plan import fit_plan, read_planned
from evenflow.cli.shared.targets.target_file import TargetFile, changed_lines
from evenflow.cli.shared.targets.target_text import (
    answer_text,
    beside_text,
    over_limit_text,
    pipeline_alone_note,
)
from evenflow.language import _
from evenflow.targets.target import Target

_FILE = "FILE"


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.argument("file", metavar=_FILE, type=options.FILE)
@target_options.target_option(
    "--to", "named", help="Framework whose file it is.  [default: the one that is recognised]"
)
@target_options.VERSION_OF
@click.option("--in-place", is_flag=True, help="Edit FILE itself instead of writing another beside it.")
@target_options.MODEL_OF_PLAN
@target_options.MEMORY_OF_PLAN
@target_options.OVER_LIMIT
@target_options.FITTING_TIME
@options.JSON
@options.OVERWRITE
def apply(
    plan_file: str,
    file: Path,
    named: Target | None,
    asked_version: str | None,
    in_place: bool,
    layer_file: str | None,
    memory: str | None,
    over_limit: bool,
    time_limit: float,
    json_file: Path | None,
    overwrite: bool,
) -> int:
    """Put a plan into the configuration that you have: FILE.planned beside FILE, otherwise byte for byte the same.

    Whose configuration FILE is, is recognised. The lines that change are shown. A framework that cannot run the plan
    gets the nearest one that it can, and every loss is named with its price in time and memory.

    Exit status: 0 written, 2 bad input, also a framework that runs nothing of the kind, 3 over the memory limit.

    \b
    Examples:
      evenflow apply plan.json train.yaml
      evenflow apply plan.json pretrain.sh --to megatron --in-place
    """
    own = TargetFile.read(file, named, option="--to")
    target = own.target
    version = target.version(asked_version) if asked_version else target.version_of(own.text, str(file))
    planned = read_planned(plan_file, layer_file=layer_file, memory=memory)
    path = file if in_place else own.beside("planned")
    inputs = {
        _("the plan file"): Path(plan_file),
        _("the layer file"): None if layer_file is None else Path(layer_file),
        **({} if in_place else {_("the file that it is made from"): file}),
    }
    outputs = Outputs(
        {_FILE: path, "--json": json_file},
        inputs=inputs,
        overwrite=overwrite,
        edited=(_FILE,) if in_place else (),
        without_mark=() if own.has_comments else (_FILE,),
    )
    found = fit_plan(planned, target, version, time_limit_s=time_limit)
    if found.is_over and not over_limit:
        click.echo(over_limit_text(found, target, version), err=True)
        return INFEASIBLE
    after = own.applied(found.plan)
    changes = changed_lines(own.text, after, old=file, new=path) or _("no line changes: the plan is there already")
    beside = beside_text(target.write(found.plan, version))
    outputs.write(_FILE, lambda: after, mark_first_line=True)
    outputs.write_json(lambda: {**fitted_fields(found, target, version), "file": str(path)})
    note = "" if planned.degrees is None else _("note: {note}", note=pipeline_alone_note(target, plan_file=plan_file))
    paragraphs = [answer_text(found, target, version), changes, beside, note, outputs.sentence]
    click.echo("\n\n".join(filter(None, paragraphs)))
    return 0
