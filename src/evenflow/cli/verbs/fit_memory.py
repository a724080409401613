"""The verb ``evenflow fit-memory``."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from evenflow.asking import optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.init_model import model_of, notes_of
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.fit_text import fit_text
from evenflow.export.results.dry_run_fields import fit_fields
from evenflow.language import _
from evenflow.profiles.init.init_file import parse_init_file
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.memory.fit import fit_memory as fit_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMemoryOptions:
    """What ``evenflow fit-memory`` is asked for beside its file: an option for each field."""

    layer_file: Path | None = optional(
        "--layer-file", is_written=True, help="Write a layer file, with the times of INIT.yaml."
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command("fit-memory")
@click.argument("init_yaml", metavar="INIT.yaml")
@options_as("request", FitMemoryOptions)
def fit_memory(init_yaml: str, request: FitMemoryOptions) -> int:
    """Decompose measured peaks into parameters, activations, head, tail and constant.

    INIT.yaml says what was dry-run (pipeline_config, recompute_config) and the peaks (memory_usage); - is standard
    input. Prints every unknown with its standard error and the stages that determine it most, every peak beside its
    equation, and how well the equations are conditioned.

    \b
    Examples:
      evenflow fit-memory cfgs/init_demo.yaml
      evenflow fit-memory cfgs/init_demo.yaml --layer-file layers/demo.json --json fit.json
    """
    layer_file = request.layer_file
    outputs = Outputs(paths_of(request), inputs={"INIT.yaml": Path(init_yaml)}, overwrite=request.overwrite)
    text, place = read_text(init_yaml)
    init = parse_init_file(text, place=place)
    fit = fit_parts(init.dry_runs)
    network = None if layer_file is None else model_of(init, fit, name=layer_file.stem)
    click.echo(fit_text(init, fit))
    for note in notes_of(init):
        click.echo(_("note: {note}", note=note), err=True)
    if network is not None:
        outputs.write("--layer-file", partial(format_layer_file, network))
    outputs.write_json(lambda: fit_fields(init, fit))
    outputs.say(err=True)
    return 0
