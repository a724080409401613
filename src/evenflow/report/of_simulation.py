"""A simulated plan as a timeline of a report."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import _, _n
from evenflow.model import NONE, Network, Plan
from evenflow.report.figures import simulation_figures
from evenflow.report.shown import Advice, Kind, RunBlock, Shown, ShownMemory
from evenflow.schedule import Schedule
from evenflow.simulate import Simulation, gaps_ns, memory_changes


def shown_simulation(
    simulation: Simulation,
    *,
    name: str,
    memory_limit_bytes: int | None,
    certificate: str = "",
    plan: str | None = None,
    notes: Sequence[str] = (),
    decision: Sequence[Advice] = (),
    run: Sequence[RunBlock] = (),
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> Shown:
    """Return the timeline of a plan with its memory, where the network has any, and the causes of every gap.

    `plan` is the plan file that the page carries.
    """
    timeline, costs = simulation.timeline, simulation.costs
    schedule = timeline.schedule
    no_message = np.zeros(schedule.num_actions, dtype=np.int64)
    memory = ShownMemory(
        static_bytes=tuple(costs.static_bytes.tolist()),
        working_bytes=tuple(costs.working_bytes.tolist()),
        changes=memory_changes(schedule, costs),
    )
    has_memory = simulation.network.has_memory
    with vocabulary.spoken():
        stage_layers = tuple(_stage_layers(simulation.network, simulation.plan, schedule))
        figures = simulation_figures(simulation, memory_limit_bytes, vocabulary)
    return Shown(
        name=name,
        kind=Kind.PLAN,
        schedule=schedule,
        start_ns=timeline.start_ns,
        end_ns=timeline.end_ns,
        makespan_ns=timeline.makespan_ns,
        gaps_ns=gaps_ns(timeline),
        recompute_ns=simulation.recompute_ns,
        inputs=timeline.graph.inputs,
        message_ns=no_message if timeline.message_ns is None else timeline.message_ns,
        causes=simulation.idle_gaps,
        idle=simulation.idle,
        memory=memory if has_memory else None,
        peak_bytes=simulation.peak_memory_bytes if has_memory else None,
        limit_bytes=memory_limit_bytes,
        stage_layers=stage_layers,
        figures=figures,
        certificate=certificate,
        notes=tuple(notes),
        decision=tuple(decision),
        run=tuple(run),
        plan=plan,
    )


def _stage_layers(network: Network, plan: Plan, schedule: Schedule) -> Iterator[str]:
    """Return the layers of every stage in words, such as ``layers 0 to 9: 10 decoder; full on the first 3``."""
    chunk_of = schedule.stage_chunks.tolist()
    first = 0
    for stage, rank in enumerate(schedule.stage_ranks):
        chunk = chunk_of[stage]
        end = first + plan.layers[chunk][rank]
        names = [(layer, len(list(equal))) for layer, equal in groupby(x.name for x in network.layers[first:end])]
        words = ", ".join(f"{count} {layer}" for layer, count in names)
        if first == end:
            text = _("no layers")
        elif end - first == 1:
            text = _("layer {first}: {layers}", first=first, layers=words)
        else:
            text = _("layers {first} to {last}: {layers}", first=first, last=end - 1, layers=words)
        kinds = [(kind, plan.count(kind, chunk, rank)) for kind in network.kinds if kind != NONE]
        recomputing = [
            _n("recompute {kind} on {count} layer", "recompute {kind} on {count} layers", count=count, kind=kind)
            for kind, count in kinds
            if count
        ]
        ends = [network.head.name] * (stage == 0) + [network.tail.name] * (stage == schedule.num_stages - 1)
        yield "; ".join(filter(None, (text, *recomputing, *ends)))
        first = end
