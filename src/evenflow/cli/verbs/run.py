"""The verb ``evenflow run``: all ranks on this machine, or under torchrun one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.torch_extra import torch_extra
from evenflow.cli.status import BAD_INPUT
from evenflow.cli.text.aa_text import mismatch_text, parse_fault, verdict
from evenflow.cli.text.run_text import comparison_text, measured_picture, step_line, verification_text
from evenflow.cluster.dtypes import DTYPES, parse_dtype
from evenflow.errors import InputError, Interrupted, MismatchError, RunError
from evenflow.export.results.json_text import format_object
from evenflow.export.results.run_fields import run_fields, timeline_fields
from evenflow.fields import as_fields, load_json
from evenflow.profiles.mesh_plan_file import parse_mesh_plan, parse_sizes
from evenflow.profiles.plan_file import parse_plan
from evenflow.run.job.child import message_of
from evenflow.run.job.launch import launch
from evenflow.run.job.rank_environment import is_started_by_torchrun, rank_environment
from evenflow.run.measure.comparison import compare
from evenflow.run.values.aa_report import Mismatch
from evenflow.run.values.run_job import LEAST_STEPS, TINY, TOLERANCES, Device, RunJob
from evenflow.run.values.run_result import RunResult, StepReport
from evenflow.schedule import schedule_of


class _OneSpeaks(click.Command):
    """A verb that torchrun starts many times: all processes find the same bad input, and rank 0 speaks for them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _silent_unless_rank_0(is_rank=is_started_by_torchrun(os.environ) or "--as-rank" in args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _silent_unless_rank_0(is_rank=is_started_by_torchrun(os.environ) or ctx.params["as_rank"]):
            return super().invoke(ctx)


@contextmanager
def _silent_unless_rank_0(*, is_rank: bool) -> Iterator[None]:
    try:
        yield
    except (InputError, click.ClickException):
        if not is_rank or os.environ.get("RANK", "0") == "0":
            raise
        raise click.exceptions.Exit(BAD_INPUT) from None


@click.command(cls=_OneSpeaks)
@click.argument("plan_file", metavar="PLAN.json")
@click.option(
    "--model",
    required=True,
    metavar="NAME|CONFIG.json",
    help="llama-tiny, or the configuration of a decoder as transformers writes it.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=LEAST_STEPS),
    default=20,
    show_default=True,
    help="Training steps; the first two are not in the measured times.",
)
@click.option("--seq", type=options.COUNT, help="Tokens of a sequence.  [default: 128, or the plan's]")
@click.option("--microbatch", type=options.COUNT, help="Sequences of a microbatch.  [default: 1, or the plan's]")
@click.option("--layers", type=options.COUNT, help="Layers instead of the model's; llama-tiny has as many as the plan.")
@click.option("--hidden", type=options.COUNT, help="Hidden size instead of the model's.")
@click.option("--heads", type=options.COUNT, help="Attention heads instead of the model's.")
@click.option("--vocab", type=options.COUNT, help="Vocabulary instead of the model's.")
@click.option(
    "--dtype",
    type=click.Choice([name for name, dtype in DTYPES.items() if dtype in TOLERANCES]),
    default="float32",
    show_default=True,
    help="Number format of parameters and activations.",
)
@click.option("--lr", type=click.FloatRange(min=0), default=1e-3, show_default=True, help="Learning rate of AdamW.")
@click.option(
    "--device",
    type=click.Choice([device.value for device in Device]),
    help="What the ranks compute on.  [default: cuda where every rank has a GPU, else cpu]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of weights, data and dropout."
)
@click.option(
    "--verify", is_flag=True, help="Train the unsplit model beside it and compare losses and gradients of every step."
)
@click.option(
    "--aa-check",
    is_flag=True,
    help="Do finished work again inside the bubbles and compare bit for bit, in every other step.",
)
@click.option(
    "--aa-everywhere",
    is_flag=True,
    help="As --aa-check, and also check work that fits no bubble, which makes the step longer.",
)
@click.option(
    "--inject-fault",
    multiple=True,
    metavar="rank=R,step=S,…",
    help="Flip one bit of a rank's results, to see that --aa-check finds it; also microbatch=M, op=forward|backward. "
    "Repeatable.",
)
@options.JSON
@click.option(
    "--svg", "svg_file", type=options.FILE, metavar="FILE", help="Draw the measured step under the predicted one."
)
@click.option(
    "--timeline",
    "timeline_file",
    type=options.FILE,
    metavar="FILE",
    help="Write start and end of every action, predicted and measured, as JSON.",
)
@click.option("--as-rank", is_flag=True, hidden=True)
def run(
    json_file: Path | None, svg_file: Path | None, timeline_file: Path | None, *, as_rank: bool, **asked: Any
) -> int:
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
    outputs = _Outputs(json_file=json_file, svg_file=svg_file, timeline_file=timeline_file)
    outputs.check(asked["plan_file"])
    if as_rank or is_started_by_torchrun(os.environ):
        return _run_as_rank(_job(asked), outputs)
    job = _checked(_job(asked))
    click.echo(f"starting {job.num_processes} processes, calibrating ...", err=True)
    try:
        result = launch(job, lambda news: _tell(news, job))
    except KeyboardInterrupt:
        raise Interrupted("interrupted: all processes have ended") from None
    return outputs.write(job, result)


def _run_as_rank(job: RunJob, outputs: "_Outputs") -> int:
    """Be one rank of a run, as torchrun starts it on every machine."""
    own = rank_environment(os.environ)
    job = _checked(job, num_processes=own.num_processes, num_local=own.num_local)
    from evenflow.run.job.worker import train

    try:
        result = train(job, lambda news: _tell(news, job))
    except (InputError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever it is, it is named with its rank
        raise RunError(f"rank {own.rank} failed: {message_of(error)}") from error
    return 0 if result is None else outputs.write(job, result)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outputs:
    json_file: Path | None
    svg_file: Path | None
    timeline_file: Path | None

    def check(self, plan_file: str) -> None:
        check_outputs(
            {"--json": self.json_file, "--svg": self.svg_file, "--timeline": self.timeline_file},
            inputs={"the plan file": Path(plan_file)},
        )

    def write(self, job: RunJob, result: RunResult) -> int:
        """Print what came of it and write the files."""
        comparison = compare(schedule_of(job.plan), result)
        written = []
        for path, option, text in (
            (self.json_file, "--json", format_object(run_fields(job, result, comparison))),
            (self.timeline_file, "--timeline", format_object(timeline_fields(job, comparison))),
            (self.svg_file, "--svg", measured_picture(job, result, comparison)),
        ):
            if path is not None:
                write_text(path, text, option=option)
                written.append(str(path))
        click.echo("\n" + comparison_text(job, result, comparison))
        if written:
            click.echo("\nwrote " + ", ".join(written))
        if result.aa_check is not None and verdict(result.aa_check):
            raise MismatchError(verdict(result.aa_check))
        if job.faults:
            raise RunError("no injected fault was found: what is checked in those steps is said above")
        if result.verification is not None and not result.verification.agrees:
            raise RunError(verification_text(result.verification))
        return 0


def _tell(news: StepReport | Mismatch, job: RunJob) -> None:
    if isinstance(news, Mismatch):
        click.echo(f"A/A check: {mismatch_text(news)}", err=True)
    else:
        click.echo(step_line(news, job.num_steps))


def _job(asked: dict[str, Any]) -> RunJob:
    """What the options ask for."""
    text, place = options.read_text(asked["plan_file"])
    name = asked["model"]
    config = "" if name == TINY else options.read_text(name)[0]
    if config:
        as_fields(load_json(config, file=name), file=name)
    aa_check = asked["aa_check"] or asked["aa_everywhere"]
    if asked["inject_fault"] and not aa_check:
        raise InputError(
            value=None,
            rule="must come with --aa-check, which is to find the fault",
            place="--inject-fault",
            remedy="add --aa-check",
        )
    mesh_plan = parse_mesh_plan(text, place=place)
    sequence, microbatch = (128, 1) if mesh_plan is None else parse_sizes(text, place=place)
    return RunJob(
        plan=parse_plan(text, place=place),
        mesh_plan=mesh_plan,
        model=name,
        config=config,
        num_layers=asked["layers"],
        hidden_size=asked["hidden"],
        num_heads=asked["heads"],
        vocab_size=asked["vocab"],
        num_steps=asked["steps"],
        sequence_length=asked["seq"] or sequence,
        microbatch_size=asked["microbatch"] or microbatch,
        dtype=parse_dtype(asked["dtype"]),
        learning_rate=asked["lr"],
        device=Device(asked["device"]) if asked["device"] else None,
        seed=asked["seed"],
        verify=asked["verify"],
        aa_check=aa_check,
        aa_everywhere=asked["aa_everywhere"],
        faults=tuple(map(parse_fault, asked["inject_fault"])),
    )


def _checked(job: RunJob, **sizes: int) -> RunJob:
    """The job with its device, if it can be run; else InputError, before any process starts."""
    with torch_extra("running a plan", place="evenflow run"):
        from evenflow.run.job.preflight import checked
    return checked(job, **sizes)
