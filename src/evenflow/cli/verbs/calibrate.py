"""The verb ``evenflow calibrate``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from evenflow.asking import optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.calibration_text import calibration_notes, calibration_text
from evenflow.errors import InputError
from evenflow.export.results.calibration_fields import calibration_fields
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
        "--output", letter="-o", is_written=True, help="Accelerator file to write: .yaml or .json."
    )
    runs_file: Path | None = optional(
        "--runs",
        is_written=True,
        help="CSV file to write with the runs as they were read: fill in what logs do not state, and give it back.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("sources", metavar="RUNS…", nargs=-1, required=True, type=options.FILE)
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
    """
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
