"""The verb ``evenflow calibrate``: a fit to measured runs, or runs to measure."""

import itertools
import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import click

from evenflow.asking import asked, optional, question_of
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.cli.shared.training.training_options import options_given
from evenflow.cli.text.calibration_text import calibration_notes, calibration_text
from evenflow.cli.text.planned_runs_text import planned_runs_text
from evenflow.cli.verbs.calibrate.planning import proposed, script
from evenflow.cli.verbs.calibrate.planning_options import PlanningOptions
from evenflow.errors import InputError
from evenflow.export.results.calibration_fields import calibration_fields
from evenflow.export.results.planned_runs_fields import planned_runs_fields
from evenflow.language import _
from evenflow.predict.calibration.fit import FitProgress, fit
from evenflow.predict.calibration.tunable import tunables
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path, format_accelerator_file
from evenflow.profiles.measured.reading import format_runs
from evenflow.profiles.measured.sources import read_measured
from evenflow.profiles.measured.to_calibrate import runs_to_calibrate
from evenflow.targets.registry import log_formats


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """What ``evenflow calibrate`` is asked for beside its runs: an option for each field."""

    accelerator: str | None = optional(
        "--accelerator",
        metavar="NAME|FILE",
        help="Accelerator of the runs, by name or as a file.  [default: the one that they state]",
    )
    names: str | None = optional(
        "--fit", metavar="NAME,…", help="Parameters to fit, such as product_share,network_share.  [default: all]"
    )
    output: Path | None = optional(
        "--output",
        letter="-o",
        is_written=True,
        help="Accelerator file to write: .yaml or .json; of planned runs a shell script, the job array of a cluster.",
    )
    runs_file: Path | None = optional(
        "--runs",
        is_written=True,
        help="CSV file to write with the runs as they were read, or planned: fill in what logs do not state, and give "
        "it back.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    planning: PlanningOptions = field(metadata=asked(group=PlanningOptions))


@click.command(cls=SectionedCommand)
@click.argument("sources", metavar="RUNS…", nargs=-1, type=options.FILE)
@options_as("request", CalibrateOptions)
def calibrate(sources: tuple[Path, ...], request: CalibrateOptions) -> int:
    """Fit what an accelerator reaches to runs that you measured.

    RUNS are CSV files, logs of Megatron-LM, torchtitan, NeMo, MindFormers or DeepSpeed, and folders of logs. Parameters
    that the runs do not determine keep their value, and the reason is printed. Prints every parameter before and after
    with its standard error, the runs beside their predictions, and the error to expect of other runs.

    \b
    Examples:
      evenflow calibrate measured.csv --accelerator h100 -o my_cluster.yaml
      evenflow calibrate logs/ --accelerator a100 --fit product_share,network_share -o my_cluster.yaml
      evenflow predict --model config.json --accelerator my_cluster.yaml --gpus 512 --global-batch 1024 --seq 8192
      evenflow calibrate --plan-runs config.json --accelerator h100 --gpus 64 --target megatron -o runs.sh
    """
    _check_task(sources, request)
    accelerator, output = request.accelerator, request.output
    outputs = Outputs(
        paths_of(request),
        inputs={
            **{_("the input {source}", source=source): source for source in sources},
            "--accelerator": accelerator_path(accelerator),
        },
        overwrite=request.overwrite,
        without_mark=("--runs",),
        measured_by="calibrate",
    )
    if request.planning.configurations:
        return _plan_runs(request, outputs)
    if output is not None and accelerator_path(output.name) is None:
        raise InputError(value=str(output), rule=_("must end in .yaml, .yml or .json"), place="--output")
    chosen = _names(request.names)
    known = None if accelerator is None else accelerator_given(accelerator, place="--accelerator")
    measured = read_measured(sources, formats=log_formats())
    outputs.write("--runs", lambda: format_runs(measured))  # now, as they may lack what a calibration needs
    runs = runs_to_calibrate(measured, known)
    with shown_step(_("predicting the runs")) as show:
        fitted = fit(runs.measurements, chosen, progress=lambda progress: show(_progress_text(progress)))
    device = fitted.calibrated(runs.accelerator, files=tuple(source.name for source in sources))
    device = replace(device, name=device.name if output is None else output.stem)
    click.echo(calibration_text(fitted, runs))
    for note in calibration_notes(runs):
        click.echo(_("note: {note}", note=note), err=True)
    is_json = output is not None and output.suffix.lower() == ".json"
    outputs.write("--output", lambda: format_accelerator_file(device, is_json=is_json))
    outputs.write_json(lambda: calibration_fields(fitted, runs, device))
    outputs.say(err=True)
    return 0


def _check_task(sources: tuple[Path, ...], request: CalibrateOptions) -> None:
    """Refuse runs beside their planning, neither of the two, and options of the other."""
    plans = bool(request.planning.configurations)
    if plans and sources:
        rule = _("must not be given beside --plan-runs, which proposes runs")
        raise InputError(value=str(sources[0]), rule=rule, place="RUNS", remedy=_("leave one of the two out"))
    if plans:
        return
    if not sources:
        remedy = _("or plan runs: evenflow calibrate --plan-runs config.json --accelerator h100 --gpus 64")
        raise InputError(rule=_("must be given: CSV files, logs or folders of logs"), place="RUNS", remedy=remedy)
    written = options_given()
    for asking in fields(PlanningOptions):
        question = question_of(asking)
        if question is not None and asking.name in written:
            raise InputError(
                rule=_("must come with --plan-runs"), place=question.option, remedy=_("leave it out, or plan runs")
            )


def _plan_runs(request: CalibrateOptions, outputs: Outputs) -> int:
    planning, output = request.planning, request.output
    if output is not None and output.suffix != ".sh":
        raise InputError(
            value=str(output), rule=_("must end in .sh: it is the script of planned runs"), place="--output"
        )
    if request.accelerator is None:
        raise InputError(
            rule=_("must be given with --plan-runs"), place="--accelerator", remedy=_("add it, such as h100")
        )
    accelerator = accelerator_given(request.accelerator, place="--accelerator")
    stem = "calibrate" if output is None else output.stem
    with shown_step(_("predicting runs")) as show:
        counter = itertools.count(1)
        proposal = proposed(
            planning, accelerator, _names(request.names), stem=stem,
            predicted=lambda: show(_("{count:,} predictions", count=next(counter))),
        )  # fmt: skip
    rows = "" if request.runs_file is None else f"{shlex.quote(request.runs_file.name)} "
    logs, device = f"{shlex.quote(stem)}-*.log", shlex.quote(request.accelerator)
    command = f"evenflow calibrate {rows}{logs} --accelerator {device} -o my_cluster.yaml"
    outputs.write("--runs", lambda: format_runs([planned.run for planned in proposal.runs]))
    outputs.write("--output", lambda: script(proposal, planning, stem=stem, command=command))
    outputs.write_json(lambda: planned_runs_fields(proposal.runs, proposal.tunables, candidates=proposal.candidates))
    click.echo(
        planned_runs_text(
            proposal.runs, proposal.tunables, device=accelerator.name, candidates=proposal.candidates
        )
    )  # fmt: skip
    click.echo("\n" + _("measure them, then:") + f"\n{command}")
    outputs.say(err=True)
    return 0


def _names(text: str | None) -> tuple[str, ...]:
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    try:
        tunables(names)
    except InputError as error:
        raise InputError(value=error.value, rule=error.rule, place="--fit", remedy=error.remedy) from None
    return names


def _progress_text(progress: FitProgress) -> str:
    return _(
        "{predictions:,} predictions, mean error {error:.1f} %",
        predictions=progress.predictions,
        error=100 * progress.error,
    )
