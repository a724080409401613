"""A plan as a framework takes it: what to paste, what it needs beside, what is exact and what is lost."""

from dataclasses import replace

import click

from evenflow.cli.shared.targets.fitted_plan import FittedPlan
from evenflow.cli.text.tables import headline, memory_note
from evenflow.errors import InputError
from evenflow.language import _, _n, looked_up
from evenflow.model import Network, Plan
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees
from evenflow.targets import registry
from evenflow.targets.fitting import Fitted
from evenflow.targets.target import Piece, Target, Written
from evenflow.units import milliseconds

_LONGEST_ORDER = 2000
"""Characters of an order of work that is printed whole."""
_SHOWN_LINES, _SHOWN_OF_LINE = 2, 100
"""Lines that are printed of a longer one, and characters of each."""


def written_for(plan: Plan, degrees: PlannedDegrees | MissingDegrees | None, target: Target, version: str) -> Written:
    """Return a plan in the framework's configuration, with what stages of several devices do where it has a place."""
    if isinstance(degrees, PlannedDegrees) and target.write_degrees is not None:
        return target.written_degrees(plan, degrees, version)
    written = target.written(plan, version)
    if degrees is None:
        return written
    return replace(written, notes=(*written.notes, pipeline_alone_note(target)))


def written_text(written: Written) -> str:
    """Return every piece under its title, then environment variables and notes."""
    parts = [_("{title}:", title=piece.title) + f"\n{shown_piece(piece)}" for piece in written.pieces]
    notes = "\n".join(_("note: {note}", note=note) for note in written.notes)
    return "\n\n".join(filter(None, (*parts, environment_text(written), notes)))


def shown_piece(piece: Piece) -> str:
    """Return the text of a piece; of an order of work too long to read or paste, only its beginning."""
    if piece.syntax != "csv" or len(piece.text) <= _LONGEST_ORDER:
        return piece.text.rstrip()
    lines = piece.text.splitlines()
    begins = [line[: line.rfind(",", 0, _SHOWN_OF_LINE) + 1] + "…" for line in lines[:_SHOWN_LINES]]
    whole = _("… {count} lines; whole with evenflow export --output-folder DIR", count=len(lines))
    return "\n".join([*begins, whole])


def block_text(target: Target, version: str, plan: Plan, *, network: Network | None = None, quiet: bool = False) -> str:
    """Return the text to paste for a plan, below what has checked it unless `quiet`; empty, with a note, if refused.

    Of the `network`, the text says what is trained.
    """
    try:
        written = target.written(plan, version)
        block = written_text(replace(written, notes=(*written.notes, *trained_notes(network, target))))
    except InputError as error:
        click.echo(_("note: no block for {target}; {reason}", target=target.title, reason=str(error)), err=True)
        return ""
    return block if quiet else f"{checked_text(target, version)}\n\n{block}"


def environment_text(written: Written) -> str:
    """Return the environment variables that a plan needs, one on each line; empty without any."""
    if not written.environment:
        return ""
    settings = "\n".join(f"{name}={value}" for name, value in written.environment.items())
    return _("environment variables:") + f"\n{settings}"


def beside_text(written: Written) -> str:
    """Return what a plan needs besides its configuration file: an order of work, environment variables, or nothing."""
    orders = [
        _("{file}, {title}:", file=piece.file_name, title=piece.title) + f"\n{shown_piece(piece)}"
        for piece in written.pieces
        if piece.syntax == "csv"
    ]
    return "\n\n".join(filter(None, (*orders, environment_text(written))))


def trained_notes(network: Network | None, target: Target) -> tuple[str, ...]:
    """Return what a framework must be told beside the plan of a network of which only some is trained."""
    if network is None:
        return ()
    notes = []
    if network.adapter_rank:
        setting = target.adapter_setting.format(rank=network.adapter_rank)
        how = (
            _("{setting} in {title}", setting=setting, title=target.title)
            if setting
            else _("set them in {title} too", title=target.title)
        )
        notes.append(
            _(
                "the plan counts on adapters alone being trained, {rank} wide, beside every product: {how}",
                rank=network.adapter_rank,
                how=how,
            )
        )
    if network.frozen_layers:
        notes.append(_frozen_note(network, target))
    return tuple(notes)


def _frozen_note(network: Network, target: Target) -> str:
    """Return the note on first layers that are not trained."""
    note = _n(
        "the plan counts on a first layer that is not trained, nor the embedding: freeze them in {title} too",
        "the plan counts on {count} first layers that are not trained, nor the embedding: freeze them in {title} too",
        count=network.frozen_layers,
        title=target.title,
    )
    if not target.frozen_parts:
        return note
    parts = target.frozen_parts.format(count=network.frozen_layers, last=network.frozen_layers - 1)
    return _("{note}, with requires_grad_(False) for these of every stage: {parts}", note=note, parts=parts)


def pipeline_alone_note(target: Target, *, plan_file: str = "") -> str:
    """Return a note that only the pipeline of a two-level plan is written, and how to get the rest of `plan_file`."""
    if plan_file and target.write_degrees is not None:
        return _(
            "only the pipeline is written: what the devices of a stage do is written by evenflow export {plan} --to "
            "{name}",
            plan=plan_file,
            name=target.name,
        )
    return _(
        "only the pipeline is written: what the devices of a stage do, {title} must be told by hand", title=target.title
    )


def checked_text(target: Target, version: str, *, has_degrees: bool = False) -> str:
    """Return a sentence on what the texts for a target, and the degrees in them, were checked with."""
    names = {"title": target.title, "version": version}
    if version in target.unchecked_versions:
        return _("{title} {version}: written to the documentation, not run", **names)
    if target.degrees_checked_with and has_degrees:
        return _(
            "{title} {version}: pipeline and recomputation checked with {package}; meshes, copies and layers of such "
            "degrees built with {builder}; ZeRO and batch written to the documentation, not run",
            package=looked_up(target.checked_with),
            builder=looked_up(target.degrees_checked_with),
            **names,
        )
    if target.checked_with and has_degrees:
        return _(
            "{title} {version}: pipeline and recomputation checked with {package}; degrees, ZeRO and batch written to "
            "the documentation, not run",
            package=looked_up(target.checked_with),
            **names,
        )
    if target.checked_with:
        return _("{title} {version}: checked with {package}", package=looked_up(target.checked_with), **names)
    return _("{title} {version}: written to the documentation, not run", **names)


def losses_text(fitted: Fitted, title: str) -> str:
    """Return what the framework runs of a plan, and each loss with its price."""
    step = f"{milliseconds(fitted.simulation.makespan_ns):,.3f} ms"
    if not fitted.losses:
        return _("exact: {title} runs the plan as it is, {step} a step of the pipeline", title=title, step=step)
    lines = [_("{title} cannot run the plan as it is:", title=title)]
    lines += [f"  {loss.sentence}" for loss in fitted.losses]
    lost_ns = sum(loss.longer_ns for loss in fitted.losses)
    planned_ns = fitted.simulation.makespan_ns - lost_ns
    change = f"{100 * lost_ns / planned_ns:+.1f} %"
    lines.append(_("what it runs takes {step} a step, {change}", step=step, change=change))
    return "\n".join(lines)


def answer_text(fitted_plan: FittedPlan, target: Target, version: str, *, has_degrees: bool = False) -> str:
    """Return the plan that the framework runs, its losses and memory, and what has read what is written for it.

    `has_degrees`: degrees of parallelism are written beside the pipeline.
    """
    if fitted_plan.fitted is None:
        exact = _("exact: {title} runs the plan as it is; its model is not in the file", title=target.title)
        return f"{exact}\n{checked_text(target, version, has_degrees=has_degrees)}"
    simulation = fitted_plan.fitted.simulation
    memory = memory_note(simulation, fitted_plan.memory_limit_bytes)
    answer = [
        losses_text(fitted_plan.fitted, target.title),
        *_ways(fitted_plan, target, version),
        memory,
        checked_text(target, version, has_degrees=has_degrees),
    ]
    return f"{headline(simulation)}\n\n" + "\n".join(answer)


def _ways(fitted_plan: FittedPlan, target: Target, version: str) -> list[str]:
    """Return a line for each way to lose less: another plan, or another target for the same framework."""
    if fitted_plan.fitted is None or not fitted_plan.fitted.losses:
        return []
    name = target.name if version == target.versions[-1] else f"{target.name} --version-of {version}"
    others = [other for other in registry.all_targets().values() if other.page == target.page and other is not target]
    return [
        _("the shortest plan that it can run: evenflow plan … --target {name}", name=name),
        *(
            _("--to {name} runs the plan as it is", name=other.name)
            for other in others
            if other.can_run(fitted_plan.original)
        ),
    ]


def over_limit_text(fitted_plan: FittedPlan, target: Target, version: str) -> str:
    """Return why nothing is written of a plan over the limit, and what can be done."""
    assert fitted_plan.fitted is not None
    memory = memory_note(fitted_plan.fitted.simulation, fitted_plan.memory_limit_bytes)
    nothing = _("nothing is written: it is over the memory limit; add --over-limit to write it all the same")
    return "\n".join(
        (losses_text(fitted_plan.fitted, target.title), *_ways(fitted_plan, target, version), memory, nothing)
    )
