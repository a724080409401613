"""The command ``run_pipeline_balance.py``: the SAPP pipeline balancer's flags and printed blocks. [SAPP guide]

Where the guide says stage for rank, so do the flags and the output here.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from evenflow import solve
from evenflow.baselines.named_plans import NamedPlan, Skipped, naive_plans
from evenflow.cli.exit_status import run_command, status_code
from evenflow.cli.sapp.answer_lines import FAMILIES, more_lines
from evenflow.cli.sapp.balancer_settings import BalancerSettings
from evenflow.cli.sapp.flags import parse, says_nothing
from evenflow.cli.sapp.guide_questions import interactive_guide
from evenflow.cli.sapp.job import Job
from evenflow.cli.sapp.model_questions import SECONDS, ask_model
from evenflow.cli.shared.compared_plans import (
    RECOMMENDED_PICTURE,
    beside_option,
    beside_paths,
    manual_plans,
    picture_option,
    picture_paths,
    recommended_plan,
)
from evenflow.cli.shared.files.output_files import HTML, Outputs
from evenflow.cli.shared.help_language import speaking_as_asked
from evenflow.cli.shared.memory_margin import certainty_note, with_margin
from evenflow.cli.shared.plan_pictures import beside_svg, plan_svg, plans_html
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.split_sequences import note_left_out
from evenflow.cli.text.block_text import block_to_paste
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.cli.text.tables import fill_drain_note, plan_table
from evenflow.draw.vocabulary import Vocabulary
from evenflow.export.results.outcome_fields import RECOMMENDED
from evenflow.export.sapp_text import format_bubbles
from evenflow.interruption import watch
from evenflow.language import _, saying_stage
from evenflow.model import NONE, Network, Plan, Request
from evenflow.simulate import Simulation, as_fractions
from evenflow.solve.contest.neighbours import comparison_seconds
from evenflow.units import megabytes, milliseconds

SAPP = Vocabulary.SAPP


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its status, which means the same as that of ``evenflow``."""
    if arguments is None:
        watch()
    line_arguments = sys.argv[1:] if arguments is None else arguments
    with speaking_as_asked(line_arguments), saying_stage():
        run_command(lambda: _balance(line_arguments))


def _balance(arguments: list[str]) -> int:
    flags = parse(arguments)
    if flags.guide:
        return interactive_guide()
    if not says_nothing(arguments):
        return _compare(Job.read(flags), flags)
    answered = ask_model()
    if answered is None:
        return 0
    flags.time_limit = SECONDS
    return _compare(Job(network=answered.settings.applied(answered.network), settings=answered.settings), flags)


def _compare(job: Job, flags: argparse.Namespace) -> int:
    """Solve, and show the recommended plan and those to compare it with."""
    if not job.network.has_memory and job.layer_file is not None:
        click.echo(_("note: the layer file has no memory data, so -mem is not checked"), err=True)
    request = job.request
    splits = request.sizes.sequence_splits
    note_left_out(request.network, sequence_splits=splits, schedule=job.settings.schedule)
    others = _others(request, job.settings, flags)
    paths = picture_paths(others, flags.output_folder)
    if flags.exec and job.settings.is_drawn:
        paths[picture_option(RECOMMENDED)] = flags.output_folder / RECOMMENDED_PICTURE
        paths |= beside_paths(others, flags.output_folder)
    outputs = Outputs(
        {HTML: flags.html},
        pictures=paths,
        inputs={_("the layer file"): job.layer_file, _("the manual file"): flags.manual_config},
        overwrite=flags.overwrite,
    )
    if flags.dump_layer:
        click.echo(layers_text(request.network) + "\n")
    known = [other.simulation.plan for other in others if isinstance(other, NamedPlan)]
    status, recommended = _recommend(request, job.settings, flags, outputs, known) if flags.exec else (0, None)
    for other in others:
        if isinstance(other, Skipped):
            click.echo("\n" + _("{name} is skipped: {reason}", name=other.name, reason=other.reason))
        else:
            click.echo(f"\n{other.name}:")
            _show(other, request.memory_limit_bytes, flags.output_folder, outputs)
            if recommended is not None and beside_option(other.name) in paths:
                _show_beside(recommended, other, request.memory_limit_bytes, outputs, paths)
    shown = [plan for plan in (recommended, *others) if isinstance(plan, NamedPlan)]
    if shown and flags.html is not None:
        outputs.write(HTML, lambda: plans_html(shown, memory_limit_bytes=request.memory_limit_bytes, vocabulary=SAPP))
        click.echo("\n" + _("page: {file}", file=flags.html))
    return status


def _others(request: Request, settings: BalancerSettings, flags: argparse.Namespace) -> list[NamedPlan | Skipped]:
    """Return the plans to compare with."""
    network, sizes, communication = request.network, request.sizes, request.communication
    others: list[NamedPlan | Skipped] = []
    if flags.simulate_naive:
        others += naive_plans(
            network, sizes, schedule=settings.schedule, communication=communication, allow_empty=request.allow_empty,
            only_divisible=True,
        )  # fmt: skip
    if flags.manual_config is not None:
        others += manual_plans(
            flags.manual_config,
            network,
            sizes,
            schedule_of_chunks=settings.schedule_of_chunks,
            communication=communication,
        )
    return others


def _recommend(
    request: Request, settings: BalancerSettings, flags: argparse.Namespace, outputs: Outputs, known: Sequence[Plan]
) -> tuple[int, NamedPlan | None]:
    """Solve from what is known, and show the plan or why there is none; return the status and the plan."""
    limit = request.memory_limit_bytes
    request, left_s, known = with_margin(
        request,
        schedule=settings.schedule,
        confidence=flags.confidence,
        time_limit_s=flags.time_limit,
        known=known,
    )
    comparison_s = 0.0 if flags.quiet else comparison_seconds(left_s)
    with shown_progress(time_limit_s=left_s, quiet=flags.quiet) as progress:
        outcome = solve.solve(
            request, schedule=settings.schedule, time_limit_s=left_s - comparison_s, progress=progress, known=known
        )
        neighbours = solve.find_neighbours(request, outcome, FAMILIES, time_limit_s=comparison_s, progress=progress)
    recommended = recommended_plan(outcome)
    if recommended is None:
        click.echo(no_plan_text(outcome), err=True)
        return status_code(outcome.status), None
    if not settings.is_drawn:
        recommended = replace(recommended, picture=None)
    sure = certainty_note(recommended.simulation, limit_bytes=limit, confidence=flags.confidence)
    more = "\n".join(filter(None, (sure, more_lines(outcome, neighbours, settings))))
    _show(recommended, limit, flags.output_folder, outputs, more=more)
    return status_code(outcome.status), recommended


def _show_beside(
    recommended: NamedPlan, manual: NamedPlan, limit: int | None, outputs: Outputs, paths: Mapping[str, Path | None]
) -> None:
    """Draw a manual plan beside the recommended one."""
    option = beside_option(manual.name)
    outputs.write(option, lambda: beside_svg(recommended, manual, memory_limit_bytes=limit, vocabulary=SAPP))
    click.echo(_("picture: {file}", file=paths[option]))


def _show(plan: NamedPlan, limit: int | None, folder: Path, outputs: Outputs, *, more: str = "") -> None:
    """Print the blocks of one plan and `more` lines about it, then draw it."""
    click.echo("\n".join(filter(None, (named_plan_text(plan, limit), more))))
    if plan.picture is not None:
        outputs.write(picture_option(plan.name), lambda: plan_svg(plan, memory_limit_bytes=limit, vocabulary=SAPP))
        click.echo(_("picture: {file}", file=folder / plan.picture))


def named_plan_text(named: NamedPlan, memory_limit_bytes: int | None) -> str:
    """Return the block to paste (or a table of the plan where there is none), bubbles, certificate, time and memory."""
    simulation = named.simulation
    plan = simulation.plan
    bubbles = format_bubbles(
        num_ranks=plan.num_ranks,
        num_chunks=plan.num_chunks,
        num_microbatches=plan.num_microbatches,
        bubble=as_fractions(simulation.bubbles),
    )
    block = block_to_paste(simulation, memory_limit_bytes)
    lines = [
        block or plan_table(simulation, memory_limit_bytes),
        bubbles.rstrip("\n"),
        fill_drain_note(simulation.fill_drain),
        named.certificate,
    ]
    lines += [f"total_time: {milliseconds(simulation.makespan_ns):.3f} ms", *_memory(simulation, memory_limit_bytes)]
    return "\n".join(line for line in lines if line)


def _memory(simulation: Simulation, memory_limit_bytes: int | None) -> list[str]:
    if not simulation.network.has_memory:
        return []
    peaks: Sequence[int] = simulation.peak_memory_bytes
    lines = [f"peak_memory: {[round(megabytes(peak)) for peak in peaks]} MB"]
    if memory_limit_bytes is not None:
        over = [stage for stage, peak in enumerate(peaks) if peak > memory_limit_bytes]
        verdict = _("OVER the limit on stages {over}", over=over) if over else _("within the limit")
        lines.append(f"memory_limit: {megabytes(memory_limit_bytes):.0f} MB, {verdict}")
    return lines


def layers_text(network: Network) -> str:
    """Return the layers as they were read: head, kinds of body layers, tail."""
    lines = [
        _(
            "layers of {name}, constant memory {constant_mb:.3f} MB",
            name=network.name,
            constant_mb=megabytes(network.constant_bytes),
        )
    ]
    for kind, block in (("HEAD", network.head), ("TAIL", network.tail)):
        lines.append(
            _(
                "  {kind} {name}: forward {forward_ms:.5f} ms, "
                "backward {backward_ms:.5f} ms, "
                "parameters {parameter_mb:.3f} MB, "
                "activation {activation_mb:.3f} MB",
                kind=kind,
                name=block.name or _("(none)"),
                forward_ms=milliseconds(block.forward_ns),
                backward_ms=milliseconds(block.backward_ns),
                parameter_mb=megabytes(block.parameter_bytes),
                activation_mb=megabytes(block.activation_bytes),
            )
        )
    for run in network.runs:
        layer = run.layer
        modes = ", ".join(
            f"{kind} {megabytes(mode.activation_bytes):.3f} MB / {milliseconds(mode.backward_ns):.5f} ms"
            for kind, mode in sorted(layer.modes.items(), key=lambda item: item[0] != NONE)
        )
        lines.insert(
            -1,
            _(
                "  BODY {name} x {count}: forward {forward_ms:.5f} ms, "
                "parameters {parameter_mb:.3f} MB, activation / backward: {modes}",
                name=layer.name,
                count=run.count,
                forward_ms=milliseconds(layer.forward_ns),
                parameter_mb=megabytes(layer.parameter_bytes),
                modes=modes,
            ),
        )
    return "\n".join(lines)
