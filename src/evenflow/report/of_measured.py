"""A measured step as a timeline of a report, and what profilers' timelines show that is no whole step."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.draw.parts.axes import show_time
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import _
from evenflow.profiles.steps import MeasuredStep, ObservedStep
from evenflow.report.figures import peak_figure, sizes_figure
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind, Shown
from evenflow.simulate import Spans, waiting_ns


def shown_measured(step: MeasuredStep | ObservedStep, *, name: str) -> Shown:
    """Return a step with the idle time of its ranks, split into communication and waiting."""
    name = _("{name}, measured", name=name)
    if isinstance(step, ObservedStep):
        shown = _shown_observed(step, name=name)
    else:
        shown = shown_timeline(step.timeline, name=name, kind=Kind.MEASURED, peak_bytes=step.peak_bytes)
    shown = replace(shown, notes=tuple(step.notes), exposed_ns=step.exposed_ns)
    return with_measured_idle(shown, step.communication)


def with_measured_idle(shown: Shown, communication: Sequence[Spans] = ()) -> Shown:
    """Return the timeline of a measured step with its gaps split; `communication` is as of `waiting_ns`."""
    waiting = waiting_ns(shown.schedule, shown.start_ns, shown.end_ns, shown.gaps_ns, shown.inputs, communication)
    split = replace(shown, waiting_ns=waiting)
    idle_ns = max(1, int((shown.makespan_ns - shown.busy_ns).sum()))
    whole_ns = max(1, shown.makespan_ns * shown.schedule.num_ranks)
    waited_ns = int(waiting.sum())
    parts = _(
        "communication {communication:.1f} %, waiting {waiting:.1f} %",
        communication=100 * max(0, idle_ns - waited_ns) / whole_ns,
        waiting=100 * waited_ns / whole_ns,
    )
    return replace(split, figures=(*shown.figures[:3], (_("Idle by cause, of the step"), parts), *shown.figures[3:]))


def _shown_observed(step: ObservedStep, *, name: str) -> Shown:
    """Return actions of which nothing tells what waits for what."""
    schedule = step.schedule
    makespan_ns = int(step.end_ns.max())
    nothing = np.zeros(schedule.num_actions, dtype=np.int64)
    starts = np.array(schedule.rank_starts)
    before = np.concatenate(([0], step.end_ns[:-1]))
    before[starts[:-1]] = 0
    gaps = np.concatenate((step.start_ns - before, makespan_ns - step.end_ns[starts[1:] - 1]))
    busy_ns = int((step.end_ns - step.start_ns).sum())
    return Shown(
        name=name,
        kind=Kind.MEASURED,
        schedule=schedule.in_turn(),
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        makespan_ns=makespan_ns,
        gaps_ns=gaps,
        recompute_ns=nothing,
        inputs=nothing - 1,
        message_ns=nothing,
        saved_ns=step.saved_ns,
        figures=(
            (_("Time shown"), show_time(makespan_ns)),
            peak_figure(None, None, Vocabulary.OURS),
            (_("Idle, of the time shown"), f"{100 * (1 - busy_ns / max(1, makespan_ns * schedule.num_ranks)):.1f} %"),
            (_("Schedule"), schedule.name),
            (_("Sizes"), sizes_figure(schedule)),
        ),
    )
