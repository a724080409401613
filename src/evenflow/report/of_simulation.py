"""A simulated plan as a timeline of a report."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.draw.vocabulary import Vocabulary
from evenflow.report.figures import simulation_figures
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind, Shown, StepWork
from evenflow.report.stage_words import stage_words
from evenflow.report.what_if import what_if_of
from evenflow.simulate import Simulation, path_shares


def shown_simulation(
    simulation: Simulation,
    *,
    name: str,
    memory_limit_bytes: int | None,
    certificate: str = "",
    plan: str | None = None,
    notes: Sequence[str] = (),
    stage_layers: Sequence[str] = (),
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> Shown:
    """Return the timeline of a plan with its memory, where the network has any, and the causes of every gap.

    `plan` is the plan file that the page carries; `stage_layers` says more of the stages than is known of the network.
    """
    network, schedule = simulation.network, simulation.timeline.schedule
    with vocabulary.spoken():
        layers_by_stage = tuple(stage_layers) or tuple(stage_words(simulation.plan, schedule, network))
        figures = simulation_figures(simulation, memory_limit_bytes, vocabulary)
    shown = shown_timeline(
        simulation.timeline,
        name=name,
        kind=Kind.PLAN,
        limit_bytes=memory_limit_bytes,
        costs=simulation.costs if network.has_memory else None,
        peak_bytes=simulation.peak_memory_bytes if network.has_memory else None,
        figures=figures,
    )
    costs = simulation.costs
    own_ns = int((costs.forward_ns + costs.backward_ns - costs.recompute_ns).sum()) * schedule.sequence_splits
    return replace(
        shown,
        step_ns=None if simulation.encoded is None else simulation.encoded.step_ns,
        work=StepWork(layers=simulation.plan.num_layers, microbatch_ns=own_ns),
        recompute_ns=simulation.recompute_ns,
        causes=simulation.idle_gaps,
        idle=simulation.idle,
        exposed_ns=None if simulation.exposed_ns is None else tuple(simulation.exposed_ns.tolist()),
        path=path_shares(simulation),
        encoders=() if simulation.encoded is None else simulation.encoded.sides,
        stage_layers=layers_by_stage,
        certificate=certificate,
        notes=tuple(notes),
        plan=plan,
        what_if=None if plan is None else what_if_of(simulation),
    )
