"""The verb ``evenflow run``: all ranks on this machine, or under torchrun one of them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from evenflow import ranges
from evenflow.cli.shared import options
from evenflow.cli.shared.dtype_option import dtype_option
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cluster import Dtype
from evenflow.errors import InputError, Interrupted, MismatchError, RunError
from evenflow.export.results.json_text import format_object
from evenflow.interruption import answer_exists, on_interrupt
from evenflow.language import _
from evenflow.profiles.timeline_file import timeline_fields
from evenflow.schedule import schedule_of
from evenflow_torch.results.run_fields import run_fields, timeline_file_of
from evenflow_torch.run.job.child import HEARTBEAT_SECONDS, message_of
from evenflow_torch.run.job.launch import MOST_RANK_TIMEOUT_SECONDS, RANK_TIMEOUT_SECONDS, launch
from evenflow_torch.run.job.rank_environment import is_started_by_torchrun, rank_environment
from evenflow_torch.run.measure.comparison import compare
from evenflow_torch.run.values.aa_report import Mismatch
from evenflow_torch.run.values.run_job import LEAST_STEPS, Device, RunJob
from evenflow_torch.run.values.run_result import RunResult, StepReport
from evenflow_torch.text.aa_text import mismatch_text, verdict
from evenflow_torch.text.run_text import (
    comparison_text,
    measured_picture,
    measured_trace,
    run_page,
    step_line,
    verification_text,
)
from evenflow_torch.verbs.run.rank_command import RankCommand
from evenflow_torch.verbs.run.run_options import RunOptions
from evenflow_torch.verbs.torch_extra import torch_extra


@click.command(cls=RankCommand)
@click.argument("plan_file", metavar="PLAN.json")
@click.option(
    "--model",
    required=True,
    metavar="NAME|CONFIG.json",
    help="llama-tiny, or the configuration of a language model as transformers writes it.",
)
@click.option(
    "--steps",
    type=Number(replace(ranges.STEPS, least=LEAST_STEPS)),
    default=20,
    show_default=True,
    help="Training steps; the first two are not in the measured times.",
)
@click.option("--seq", type=options.TRAINED_SIZE, help="Tokens of a sequence.  [default: 128, or the plan's]")
@click.option(
    "--target-seq",
    type=options.TRAINED_SIZE,
    help="Tokens of a target, of a model with encoder and decoder.  [default: as --seq, or the plan's]",
)
@click.option(
    "--microbatch", type=options.SEQUENCE_COUNT, help="Sequences of a microbatch.  [default: 1, or the plan's]"
)
@click.option(
    "--layers",
    type=Number(ranges.MODEL_LAYERS),
    help="Layers to use instead of the model's; llama-tiny has as many as the plan.",
)
@click.option("--hidden", type=options.MODEL_SIZE, help="Hidden size to use instead of the model's.")
@click.option("--heads", type=options.MODEL_SIZE, help="Attention heads to use instead of the model's.")
@click.option("--vocab", type=options.TRAINED_SIZE, help="Vocabulary size to use instead of the model's.")
@dtype_option(Dtype.FLOAT32, Dtype.FLOAT64, Dtype.BFLOAT16, help="Number format of parameters and activations")
@click.option(
    "--lr", type=Number(ranges.LEARNING_RATE), default=1e-3, show_default=True, help="Learning rate of AdamW."
)
@click.option(
    "--device",
    type=click.Choice([device.value for device in Device]),
    help="Device that the ranks compute on.  [default: cuda where every rank has a GPU, else cpu]",
)
@click.option(
    "--seed", type=Number(ranges.SEED), default=0, show_default=True, help="Seed of weights, data and dropout."
)
@click.option(
    "--verify", is_flag=True, help="Also train the unsplit model, and compare losses and gradients of every step."
)
@click.option(
    "--aa-check",
    is_flag=True,
    help="Do finished work again inside the bubbles and compare bit for bit, in every other step.",
)
@click.option(
    "--aa-everywhere",
    is_flag=True,
    help="Like --aa-check, and also check work that fits no bubble, which makes the step longer.",
)
@click.option(
    "--inject-fault",
    multiple=True,
    metavar="rank=R,step=S,…",
    help="Flip one bit of a rank's results, to see that --aa-check finds it; also microbatch=M, op=forward|backward. "
    "May be given several times.",
)
@options.JSON
@click.option(
    "--svg", "svg_file", type=options.FILE, metavar="FILE", help="Draw the measured step under the predicted one."
)
@options.HTML
@click.option(
    "--timeline",
    "timeline_file",
    type=options.FILE,
    metavar="FILE",
    help="Write start and end of every action, predicted and measured, as JSON.",
)
@options.TRACE
@options.OVERWRITE
@click.option(
    "--rank-timeout",
    type=Number(replace(ranges.SECONDS, is_above=False, least=2 * HEARTBEAT_SECONDS, most=MOST_RANK_TIMEOUT_SECONDS)),
    default=RANK_TIMEOUT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Give up when a rank shows no sign of life for this time, as when it was stopped.",
)
@click.option("--as-rank", is_flag=True, hidden=True)
def run(**keywords: Any) -> int:
    """Train a model as planned, one process per rank on this machine, and compare with the prediction.

    Before the training every rank measures what its stages and messages cost here; the plan's order, simulated with
    these durations, is the prediction. The data are sequences that count up. On several machines:
    torchrun --nnodes N --nproc-per-node M -m evenflow run PLAN.json … with the same options.

    Exit status: 0 trained, 1 a rank failed or --verify found a difference, 2 bad input, 5 --aa-check found one, 130
    interrupted.

    \b
    Example:
      evenflow run plan.json --model llama-tiny --steps 20 --svg run.svg
    """
    run_options = RunOptions(**keywords)
    outputs = Outputs(
        {
            "--json": run_options.json_file,
            "--svg": run_options.svg_file,
            "--timeline": run_options.timeline_file,
            "--html": run_options.html_file,
            "--trace": run_options.trace_file,
        },
        inputs={_("the plan file"): Path(run_options.plan_file)},
        overwrite=run_options.overwrite,
        measured_by="run",
    )
    plan, place = read_text(run_options.plan_file)
    if run_options.as_rank or is_started_by_torchrun(os.environ):
        return _run_as_rank(run_options.job(plan, place), outputs, plan)
    job = _checked(run_options.job(plan, place))
    click.echo(_("starting {num_processes} processes, calibrating ...", num_processes=job.num_processes), err=True)
    try:
        with on_interrupt(lambda: None, patient=True):  # `launch` looks for it, and ends the processes
            result = launch(job, lambda news: _tell(news, job), rank_timeout_s=run_options.rank_timeout)
            answer_exists()
    except KeyboardInterrupt:
        raise Interrupted(_("interrupted: all processes have ended")) from None
    return _answer(job, result, outputs, plan)


def _run_as_rank(job: RunJob, outputs: Outputs, plan: str) -> int:
    """Be one rank of a run, as torchrun starts it on every machine."""
    own = rank_environment(os.environ)
    job = _checked(job, num_processes=own.num_processes, num_local=own.num_local)
    from evenflow_torch.run.job.worker import train

    try:
        result = train(job, lambda news: _tell(news, job))
    except (InputError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever it is, it is named with its rank
        raise RunError(_("rank {rank} failed: {message}", rank=own.rank, message=message_of(error))) from error
    return 0 if result is None else _answer(job, result, outputs, plan)


def _answer(job: RunJob, result: RunResult, outputs: Outputs, plan: str) -> int:
    """Write the files, print the comparison, and raise the errors that a run can end with.

    `plan` is the text of the plan file, which the page carries.
    """
    comparison = compare(schedule_of(job.plan), result)
    outputs.write_json(lambda: run_fields(job, result, comparison))
    outputs.write(
        "--timeline", lambda: format_object(timeline_fields(timeline_file_of(job, comparison), plan=job.plan))
    )
    outputs.write("--trace", lambda: measured_trace(job, comparison))
    outputs.write("--svg", lambda: measured_picture(job, result, comparison))
    outputs.write("--html", lambda: run_page(job, result, comparison, plan=plan, made_by=MADE_BY))
    outputs.say(comparison_text(job, result, comparison), is_apart=True)
    if result.aa_check is not None and verdict(result.aa_check):
        raise MismatchError(verdict(result.aa_check))
    if job.faults:
        raise RunError(_("no injected fault was found: the table above says what is checked in those steps"))
    if result.verification is not None and not result.verification.agrees:
        raise RunError(verification_text(result.verification))
    return 0


def _tell(news: StepReport | Mismatch, job: RunJob) -> None:
    """Print what happens during a run."""
    if isinstance(news, Mismatch):
        click.echo(_("A/A check: {mismatch_text}", mismatch_text=mismatch_text(news)), err=True)
    else:
        click.echo(step_line(news, job.num_steps))


def _checked(job: RunJob, **sizes: int) -> RunJob:
    """Return the job with its device; raises InputError, before any process starts, where it cannot be run."""
    with torch_extra(place="evenflow run"):
        from evenflow_torch.run.job.preflight import checked
    return checked(job, **sizes)
