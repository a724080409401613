"""The verb ``evenflow tune``."""

import shlex
from dataclasses import replace

import click

from evenflow.cli.exit_status import INFEASIBLE, TIMEOUT
from evenflow.cli.shared.compiling_note import note_compiling
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.progress import shown_tuning
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.cli.shared.targets.script_inputs import check_scripts, may_read_scripts
from evenflow.cli.shared.targets.target_file import print_notes
from evenflow.cli.shared.targets.target_options import version_of
from evenflow.cli.shared.training.training_options import options_given
from evenflow.cli.text.tune.nothing_text import needed_text
from evenflow.cli.text.tune.ranking_text import nothing_text, tune_text
from evenflow.cli.verbs.tune.after_options import BASELINE
from evenflow.cli.verbs.tune.answers import Answers, ranking_share
from evenflow.cli.verbs.tune.ranking_page import ranking_page
from evenflow.cli.verbs.tune.refiner import refiner_named
from evenflow.cli.verbs.tune.tune_job import accelerator_file, tune_job
from evenflow.cli.verbs.tune.tune_options import TuneOptions
from evenflow.draw.ranking_picture import ranking_svg
from evenflow.export.results.json_text import finite
from evenflow.export.results.tune_fields import TuneSetting, tune_fields
from evenflow.interruption import answer_exists
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.training_baseline import read_training
from evenflow.tune.preference import simplest_first
from evenflow.tune.search import search
from evenflow.tune.tuned import Tuned


@click.command(cls=SectionedCommand)
@options_as("request", TuneOptions)
@may_be_reproducible
@may_read_scripts
def tune(request: TuneOptions) -> int:
    """Rank all ways to split a training over devices, and prove how good the first is.

    Tensor, context, expert, pipeline and data parallelism, chunks, microbatch, ZeRO and schedule are chosen; for each
    the layers of every stage and their recomputation. What a lower bound shows to be slower than the best is not
    solved. The JSON file is also a plan file: with it, the first row goes to `evenflow plan` and `evenflow export`.

    Exit status: 0 a ranking, 2 bad input, 3 nothing is legal or fits, 4 nothing found in the time given, 130
    interrupted, 143 ended.

    \b
    Examples:
      evenflow tune --model examples/configs/llama3_70b.json --accelerator h100 --gpus 256 --seq 8192 \\
        --global-batch 1536 --target megatron --json tune.json
      evenflow tune --model examples/configs/qwen3_235b.json --calibration my_cluster.yaml --gpus 256 \\
        --seq 4096 --global-batch 2048 --fix zero=1,tensor=4 --max-context 2
    """
    outputs = Outputs(
        paths_of(request),
        inputs={
            "--model": request.described.file,
            "--accelerator" if request.calibration is None else "--calibration": accelerator_file(request),
            BASELINE: request.after.baseline_file,
        },
        overwrite=request.overwrite,
    )
    request.after.check(rows=request.rows)
    file = request.after.baseline()
    if file is not None and request.target is None:
        request = replace(request, target=file.target)
    job = tune_job(request, given=options_given())
    free_command = ""
    if request.after.refine is not None:
        refiner = refiner_named(request.after.refine)
        refiner.check(job.question, request.described.model)
        free_command = refiner.command(request, job.question)
    yours = None
    if file is not None:
        yours = read_training(file.target, file.text, str(file.path), job.question)
        print_notes(file, notes=yours.notes, unknown=yours.unknown)
    check_scripts()
    time_left = TimeLeft.of_command(request.time_limit)
    seconds = time_left.seconds * ranking_share(request.after)
    with shown_tuning(time_limit_s=seconds) as progress:
        found = search(job.question, rows=request.rows, time_limit_s=seconds, progress=progress)
    note_compiling(is_last_word=found.is_proven)
    answer_exists()  # a signal leaves the ranking, or that there is none, and ends what comes after it
    target = request.target
    setting = TuneSetting(
        rows=request.rows,
        target="" if target is None else target.name,
        version=version_of(target, request.asked_version),
        assumed=job.assumed,
        notes=job.notes,
    )
    answers = Answers(
        tuned=simplest_first(found),
        asked=request.after,
        time_left=time_left,
        rows=request.rows,
        model=request.described.model,
        free_command=free_command,
        yours=yours,
    ).overtaken()
    found = answers.tuned

    def fields() -> dict[str, object]:
        return {**tune_fields(found, setting), **answers.fields()}

    outputs.write_json(fields)
    if found.best is None:
        what_would_do = "" if answers.needed is None else needed_text(found, answers.needed)
        outputs.say(nothing_text(found), what_would_do, err=True)
        return INFEASIBLE if finite(found.lower_bound_ns) is None else TIMEOUT
    outputs.write("--svg", lambda: ranking_svg(found, rows=request.rows, title=_title(found)))
    plan_file = None if request.json_file is None else shlex.quote(str(request.json_file))
    own = None if answers.standing is None else answers.standing.candidate
    outputs.write(
        "--html", lambda: ranking_page(found, setting, fields(), title=_title(found), yours=own, target=target)
    )
    text = tune_text(found, setting, plan_file=plan_file, yours=own)
    outputs.say(text, *answers.text())
    return 0


def _title(found: Tuned) -> str:
    question = found.question
    device = question.topology.accelerator.name
    title = f"{question.model.name} on {question.devices:,} x {device}"
    return f"{title}, for {question.title}" if question.title else title
