"""The verb ``evenflow run``: all ranks on this machine, or under torchrun one of them."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.errors import InputError, Interrupted, MismatchError, RunError
from evenflow.export.results.json_text import format_object
from evenflow.interruption import answer_exists, on_interrupt
from evenflow.language import _, _n
from evenflow.profiles.timeline_file import timeline_fields
from evenflow.schedule import schedule_of
from evenflow_torch.results.run_fields import run_fields, timeline_file_of
from evenflow_torch.run.job.child import message_of
from evenflow_torch.run.job.launch import launch
from evenflow_torch.run.job.rank_environment import RankEnvironment, is_started_by_torchrun, rank_environment
from evenflow_torch.run.measure.comparison import compare
from evenflow_torch.run.values.aa_report import Mismatch
from evenflow_torch.run.values.run_files import checkpoints_in, last_checkpoint
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
from evenflow_torch.verbs.run.elastic import plan_for_processes
from evenflow_torch.verbs.run.metrics_files import MetricsFiles
from evenflow_torch.verbs.run.rank_command import RankCommand
from evenflow_torch.verbs.run.run_options import RunOptions
from evenflow_torch.verbs.torch_extra import torch_extra


@click.command(cls=RankCommand)
@click.argument("plan_file", metavar="PLAN.json")
@options_as("request", RunOptions)
def run(request: RunOptions) -> int:
    """Train a model as planned, one process per rank on this machine, and compare with the prediction.

    Before the training every rank measures what its stages and messages cost here; the plan's order, simulated with
    these durations, is the prediction. Without --data, the data are sequences that count up. On several machines:
    torchrun --nnodes N --nproc-per-node M -m evenflow run PLAN.json … with the same options.

    Exit status: 0 trained, 1 a rank failed or --verify found a difference, 2 bad input, 5 --aa-check found one, 130
    interrupted.

    \b
    Example:
      evenflow run plan.json --model llama-tiny --steps 20 --svg run.svg
    """
    outputs = Outputs(
        paths_of(request),
        inputs={_("the plan file"): Path(request.plan_file)},
        overwrite=request.overwrite,
        measured_by="run",
    )
    plan, place = read_text(request.plan_file)
    is_again = request.elastic or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0  # by torchrun
    goes_on = request.overwrite or request.resume is not None or is_again
    metrics = MetricsFiles(request.metrics_file, request.tensorboard, goes_on=goes_on)
    begun = _from_last_checkpoint if is_again else _begins_anew
    if request.as_rank or is_started_by_torchrun(os.environ):
        own = rank_environment(os.environ)
        plan = _for_processes(request, plan, place, own.num_processes, is_first=own.rank == 0)
        job = begun(request.job(plan, place))
        return _run_as_rank(job, own, outputs, plan, request.rank_timeout, metrics)
    plan_of_all = plan
    plan = _for_processes(request, plan_of_all, place, _num_gpus(request))
    job = _checked(begun(request.job(plan, place)))
    if job.frozen_layers:
        note = _n(
            "note: the first layer is not trained, nor is what comes before it",
            "note: the first {count} layers are not trained, nor is what comes before them",
            count=job.frozen_layers,
        )
        click.echo(note, err=True)
    if job.adapter_rank:
        trained = _("only adapters are trained, {rank} wide, beside every product of the layers", rank=job.adapter_rank)
        click.echo(_("note: {note}", note=trained), err=True)
    if schedule_of(job.plan).has_pairs:
        click.echo(
            _(
                "note: forwards and backwards that the plan has beside each other run one after the other, which holds "
                "more"
            ),
            err=True,
        )
    click.echo(_("starting {num_processes} processes, calibrating ...", num_processes=job.num_processes), err=True)
    for left in reversed(range(request.restarts + 1)):
        try:
            with on_interrupt(lambda: None, patient=True):  # `launch` looks for it, and ends the processes
                result = launch(job, partial(_tell, job=job, metrics=metrics), rank_timeout_s=request.rank_timeout)
                answer_exists()
            break
        except KeyboardInterrupt:
            raise Interrupted(_("interrupted: all processes have ended")) from None
        except RunError as error:
            if not left:
                raise
            again = _for_processes(request, plan_of_all, place, _num_gpus(request))
            if again != plan:
                plan, job = again, _checked(request.job(again, place))
            job = _from_last_checkpoint(job)
            click.echo(str(error), err=True)
            click.echo(
                _("starting again behind step {step}; restarts left: {left}", step=job.files.first_step, left=left - 1),
                err=True,
            )
    return _answer(job, result, outputs, plan)


def _for_processes(
    request: RunOptions, plan: str, place: str, num_processes: int | None, *, is_first: bool = True
) -> str:
    """Return the text of the plan for so many processes, where that is asked for; None: as many as it has ranks."""
    if not request.elastic or num_processes is None or request.save is None:
        return plan
    return plan_for_processes(
        plan, place, model=request.model, num_processes=num_processes, data_parallel=request.data_parallel,
        folder=request.save.absolute(), is_first=is_first,
    )  # fmt: skip


def _num_gpus(request: RunOptions) -> int | None:
    """Return how many GPUs ranks can have on this machine; None where they do not need any."""
    if not request.elastic or request.device == Device.CPU.value:
        return None
    with torch_extra(place="evenflow run"):
        import torch
    return torch.cuda.device_count() or None


def _begins_anew(job: RunJob) -> RunJob:
    """Return the job; raise InputError where checkpoints of another training would be taken for those of this one."""
    folder = job.files.save
    later = (
        [] if folder is None else [path for steps, path in checkpoints_in(Path(folder)) if steps > job.files.first_step]
    )
    if later:
        raise InputError(
            value=str(max(later)),
            rule=_("must be a folder without checkpoints of later steps than this training begins with"),
            place="--save",
            remedy=_("give another folder, or go on from the last one with --resume"),
        )
    return job


def _from_last_checkpoint(job: RunJob) -> RunJob:
    """Return the job as it goes on from the last checkpoint it has written, or as it is where there is none."""
    folder, most = job.files.save, job.num_steps - LEAST_STEPS
    last = None if folder is None else last_checkpoint(Path(folder), most_steps=most)
    if last is None:
        return job
    return replace(job, files=replace(job.files, first_step=last[0], resume=str(last[1])))


def _run_as_rank(
    job: RunJob, own: RankEnvironment, outputs: Outputs, plan: str, rank_timeout_s: float, metrics: MetricsFiles
) -> int:
    """Be one rank of a run, as torchrun starts it on every machine."""
    job = _checked(job, num_processes=own.num_processes, num_local=own.num_local)
    from evenflow_torch.run.job.worker import train

    try:
        result = train(job, partial(_tell, job=job, metrics=metrics), rank_timeout_s=rank_timeout_s)
    except (InputError, RunError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever it is, it is named with its rank
        raise RunError(_("rank {rank} failed: {message}", rank=own.rank, message=message_of(error))) from error
    return 0 if result is None else _answer(job, result, outputs, plan)


def _answer(job: RunJob, result: RunResult, outputs: Outputs, plan: str) -> int:
    """Write the files, print the comparison, and raise the errors that a run can end with.

    `plan` is the text of the plan file, which the page carries.
    """
    comparison = compare(schedule_of(job.plan).in_turn(), result, job.host_link)
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


def _tell(news: StepReport | Mismatch, job: RunJob, metrics: MetricsFiles) -> None:
    """Print what happens during a run, and write the metrics of steps."""
    if isinstance(news, Mismatch):
        click.echo(_("A/A check: {mismatch_text}", mismatch_text=mismatch_text(news)), err=True)
    else:
        click.echo(step_line(news, job.num_steps))
        metrics.write(news)


def _checked(job: RunJob, **sizes: int) -> RunJob:
    """Return the job with its device; raises InputError, before any process starts, where it cannot be run."""
    with torch_extra(place="evenflow run"):
        from evenflow_torch.run.job.preflight import checked
    return checked(job, **sizes)
