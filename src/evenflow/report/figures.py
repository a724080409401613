"""The figures of a timeline in a report."""

from evenflow.draw.parts.axes import show_memory, show_time
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import _, _n
from evenflow.schedule import Schedule
from evenflow.simulate import Simulation, Timeline

Figures = tuple[tuple[str, str], ...]


def simulation_figures(
    simulation: Simulation, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> Figures:
    """Return step time, peak memory, idle time, bubbles by cause, schedule, sizes; those that lead are first."""
    bubbles = simulation.bubbles
    causes = [
        (_("fill and drain"), bubbles.ideal),
        (_("imbalance"), bubbles.imbalance),
        (_("recompute"), bubbles.recompute),
    ]
    if simulation.communication:
        causes.append((_("communication"), bubbles.communication))
    if bubbles.host_copies is not None:
        causes.append((_("host copies"), bubbles.host_copies))
    by_cause = ", ".join(f"{name} {_percent(share)}" for name, share in causes)
    peak = simulation.peak_memory_bytes if simulation.network.has_memory else None
    step, peaks, idle, *others = timeline_figures(simulation.timeline, peak, memory_limit_bytes, vocabulary)
    layers = (_("Layers"), f"{simulation.plan.num_layers:,}")
    encoded = simulation.encoded
    parts: Figures = ()
    if encoded is not None:  # what a step takes is one number: the whole
        parts = ((_("Pipeline alone, of the step"), step[1]),)
        step, idle = (step[0], show_time(encoded.step_ns)), (_("Idle, of the pipeline alone"), idle[1])
    wasted = (_("Bubbles, of model time"), f"{_percent(bubbles.real)}: {by_cause}")
    return (step, peaks, idle, *parts, wasted, *others, layers)


def timeline_figures(
    timeline: Timeline,
    peak_bytes: tuple[int, ...] | None,
    memory_limit_bytes: int | None,
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> Figures:
    """Return step time, peak memory, idle time, schedule and sizes of any timeline."""
    schedule = timeline.schedule
    idle = 1 - int(timeline.busy_ns.sum()) / max(timeline.makespan_ns * schedule.num_ranks, 1)
    return (
        (_("Step time"), show_time(timeline.makespan_ns)),
        peak_figure(peak_bytes, memory_limit_bytes, vocabulary),
        (_("Idle, of the step"), _percent(idle)),
        (_("Schedule"), schedule.name),
        (_("Sizes"), sizes_figure(schedule)),
    )


def peak_figure(
    peak_bytes: tuple[int, ...] | None, memory_limit_bytes: int | None, vocabulary: Vocabulary
) -> tuple[str, str]:
    """Return the name of the highest memory of any rank, and in words how high it is and whether it fits."""
    name = _("Peak memory")
    if peak_bytes is None:
        return name, _("not known")
    peak = max(peak_bytes)
    unit = vocabulary.memory_unit(max(peak, memory_limit_bytes or 0))
    values = {"peak": show_memory(peak, unit), "rank": peak_bytes.index(peak)}
    if memory_limit_bytes is None:
        return name, _("{peak} on rank {rank}", **values)
    values["limit"] = show_memory(memory_limit_bytes, unit)
    if peak <= memory_limit_bytes:
        values["room"] = show_memory(memory_limit_bytes - peak, unit)
        return name, _("{peak} of {limit}, on rank {rank}: fits, {room} free", **values)
    values["room"] = show_memory(peak - memory_limit_bytes, unit)
    return name, _("{peak} of {limit}, on rank {rank}: {room} over the limit", **values)


def sizes_figure(schedule: Schedule) -> str:
    """Return ranks, chunks and microbatches in words."""
    counts = [
        _n("{count} rank", "{count} ranks", count=schedule.num_ranks),
        _n("{count} chunk", "{count} chunks", count=schedule.num_chunks),
        _n("{count} microbatch", "{count} microbatches", count=schedule.num_microbatches),
    ]
    if schedule.sequence_splits > 1:
        counts.append(_("{parts} parts of each sequence", parts=schedule.sequence_splits))
    return " × ".join(counts)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
