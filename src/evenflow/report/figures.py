"""What a report tells of a timeline in numbers."""

from evenflow.draw.parts.axes import show_memory, show_time
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import _, _n
from evenflow.schedule import Schedule
from evenflow.simulate import Simulation

Figures = tuple[tuple[str, str], ...]


def simulation_figures(
    simulation: Simulation, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> Figures:
    """Return step time, idle time, bubbles by cause, peak memory, schedule and sizes of a plan."""
    plan, bubbles = simulation.plan, simulation.bubbles
    causes = [
        (_("fill and drain"), bubbles.ideal),
        (_("imbalance"), bubbles.imbalance),
        (_("recompute"), bubbles.recompute),
    ]
    if simulation.communication:
        causes.append((_("communication"), bubbles.communication))
    by_cause = ", ".join(f"{name} {_percent(share)}" for name, share in causes)
    layers = _n("{count} layer", "{count} layers", count=plan.num_layers)
    peak = simulation.peak_memory_bytes if simulation.network.has_memory else None
    return (
        (_("Step time"), show_time(simulation.makespan_ns)),
        (_("Idle"), idle_share(int(simulation.timeline.busy_ns.sum()), simulation.makespan_ns, plan.num_ranks)),
        (_("Bubbles, of model time"), f"{_percent(bubbles.real)}: {by_cause}"),
        peak_figure(peak, memory_limit_bytes, vocabulary),
        (_("Schedule"), plan.schedule),
        (_("Sizes"), f"{sizes(simulation.timeline.schedule)}, {layers}"),
    )


def idle_share(busy_ns: int, makespan_ns: int, num_ranks: int) -> str:
    """Return the share of the step that ranks are idle."""
    return _percent(1 - busy_ns / max(makespan_ns * num_ranks, 1))


def peak_figure(
    peak_bytes: tuple[int, ...] | None, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> tuple[str, str]:
    """Return the highest memory of any rank, and whether it fits."""
    name = _("Peak memory")
    if peak_bytes is None:
        return name, _("not known")
    peak = max(peak_bytes)
    unit = vocabulary.memory_unit(max(peak, memory_limit_bytes or 0))
    words = {"peak": show_memory(peak, unit), "rank": peak_bytes.index(peak)}
    if memory_limit_bytes is None:
        return name, _("{peak} on rank {rank}", **words)
    words["limit"] = show_memory(memory_limit_bytes, unit)
    if peak <= memory_limit_bytes:
        return name, _("{peak} of {limit}, on rank {rank}", **words)
    return name, _("{peak} of {limit}, on rank {rank}: over the limit", **words)


def sizes(schedule: Schedule) -> str:
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
