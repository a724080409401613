"""The verb ``evenflow predict``."""

import click

from evenflow.cli.exit_status import INFEASIBLE
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.cli.shared.training.option_names import changed_options, option
from evenflow.cli.shared.training.planner_inputs import planner_inputs
from evenflow.cli.shared.training.training_job import training_job
from evenflow.cli.shared.training.training_options import options_given
from evenflow.cli.text.predict_text import predict_text
from evenflow.cli.verbs.predict.plan_command import next_plan
from evenflow.cli.verbs.predict.predict_options import PredictOptions
from evenflow.export.results.prediction_fields import PredictionSetting, prediction_fields
from evenflow.language import _
from evenflow.predict.limits.smallest_change import peak_bytes, smallest_change
from evenflow.predict.prediction import predict as predict_step
from evenflow.profiles.accelerator_file import accelerator_path
from evenflow.profiles.layer_file import format_layer_file


@click.command(cls=SectionedCommand)
@options_as("request", PredictOptions)
def predict(request: PredictOptions) -> int:
    """Predict step time and memory of a training from its configuration, its degrees and an accelerator's name.

    The time is that of operators and exchanges on the accelerator's data sheet, put in order by the exact simulator of
    the pipeline. docs/accuracy.md has what such predictions miss published measurements by.

    Exit status: 0 predicted, 2 bad input, 3 the memory limit is exceeded; the smallest change that fits is printed.

    \b
    Examples:
      evenflow predict --model examples/configs/llama3_70b.json --accelerator h100 --gpus 64 --tensor 8 \\
        --pipeline 4 --chunks 5 --global-batch 128 --seq 8192 -o layers.json
      evenflow predict --hidden 12288 --layers 96 --heads 96 --vocab 51200 --accelerator a100 --gpus 1024 \\
        --tensor 8 --pipeline 16 --global-batch 1536 --seq 2048 --recompute selective
    """
    training = request.training
    outputs = Outputs(
        paths_of(request),
        inputs={"--model": request.described.file, "--accelerator": accelerator_path(training.accelerator)},
        overwrite=request.overwrite,
        formats={"--output": ".json"},
    )
    model = request.described.described(training.sequence)
    job = training_job(training, model, written=options_given(), named=option)
    result = predict_step(job.training, job.topology)
    limit, layers = job.memory_limit_bytes, request.layer_file
    inputs = planner_inputs(
        result,
        job.topology,
        memory_limit_bytes=limit,
        encoder=request.encoder,
        half_blocks=request.half_blocks,
        recompute_sets=request.recompute_sets,
    )
    outputs.write("--output", lambda: format_layer_file(inputs.network))
    is_over = bool(limit) and peak_bytes(result) > limit
    change = None
    if is_over:
        with shown_step(_("looking for what fits")):
            change = smallest_change(result, limit_bytes=limit)
    setting = PredictionSetting(
        memory_limit_bytes=limit,
        assumed=job.assumed,
        notes=job.notes,
        next_plan=None if layers is None else next_plan(result, inputs, layers),
        change=change,
        changed_options=() if change is None else changed_options(change.settings),
    )
    outputs.write_json(lambda: prediction_fields(result, setting))
    outputs.say(predict_text(result, setting))
    return INFEASIBLE if is_over else 0
