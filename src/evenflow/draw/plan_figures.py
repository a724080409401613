"""The figures of a plan as text, for titles and panels."""

from dataclasses import dataclass

from evenflow.draw.parts.axes import memory_unit, show_memory, show_time
from evenflow.draw.vocabulary import Vocabulary
from evenflow.simulate import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: its name, its value, and a note that says more."""

    label: str
    value: str
    note: str
    alarming: bool = False


def plan_figures(
    simulation: Simulation, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> list[Figure]:
    """Return makespan, bubbles by cause, peak memory, sizes and schedule."""
    plan, bubbles = simulation.plan, simulation.bubbles
    causes = f"{ideal_figure(simulation)}, imbalance {percent(bubbles.imbalance)}"
    causes += f", recompute {percent(bubbles.recompute)}"
    if simulation.communication:
        causes += f", communication {percent(bubbles.communication)}"
    if bubbles.host_copies is not None:
        causes += f", host copies {percent(bubbles.host_copies)}"
    idle = 1 - simulation.timeline.busy_ns.sum() / max(simulation.makespan_ns * plan.num_ranks, 1)
    waiting = f"{vocabulary.several} idle {percent(idle)} of it"
    encoded = simulation.encoded
    if encoded is not None:
        waiting += f"; with encoders {show_time(encoded.step_ns)}"
    return [
        Figure(label="Makespan", value=show_time(simulation.makespan_ns), note=waiting),
        Figure(label="Bubbles, of model time", value=percent(bubbles.real), note=causes),
        peak_figure(simulation, memory_limit_bytes, vocabulary),
        Figure(label="Schedule", value=plan.schedule, note=sizes(simulation, vocabulary)),
    ]


def ideal_figure(simulation: Simulation) -> str:
    """Return the bubbles of equal stages, simulated and by formula."""
    by_formula = simulation.fill_drain.by_formula
    known = "no formula" if by_formula is None else f"formula {percent(by_formula)}"
    return f"ideal {percent(simulation.bubbles.ideal)} ({known})"


def peak_figure(
    simulation: Simulation, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> Figure:
    """Return the highest memory of any rank, and whether it fits."""
    label = "Peak memory"
    if not simulation.network.has_memory:
        return Figure(label=label, value="not known", note="no limit can be checked")
    peaks = simulation.peak_memory_bytes
    peak = max(peaks)
    unit = vocabulary.memory_unit(max(peak, memory_limit_bytes or 0))
    on_rank = f"on {vocabulary.rank(peaks.index(peak))}"
    if memory_limit_bytes is None:
        return Figure(label=label, value=show_memory(peak, unit), note=f"{on_rank}; no limit given")
    value = f"{show_memory(peak, unit)} of {show_memory(memory_limit_bytes, unit)}"
    ranks_over = sum(rank_peak > memory_limit_bytes for rank_peak in peaks)
    if ranks_over == 0:
        return Figure(label=label, value=value, note=f"{on_rank}; fits")
    excess_bytes = peak - memory_limit_bytes
    excess = show_memory(excess_bytes, unit if excess_bytes >= unit[0] else memory_unit(excess_bytes))
    note = f"{on_rank}; over the limit by {excess}, on {ranks_over} of {vocabulary.ranks(len(peaks))}"
    return Figure(label=label, value=value, note=note, alarming=True)


def sizes(simulation: Simulation, vocabulary: Vocabulary = Vocabulary.OURS) -> str:
    """Return ranks, chunks, microbatches and layers as text."""
    plan = simulation.plan
    counts = [
        vocabulary.ranks(plan.num_ranks),
        _count(plan.num_chunks, "chunk"),
        _count(plan.num_microbatches, "microbatch"),
    ]
    if plan.sequence_splits > 1:
        counts[-1] += f" in {plan.sequence_splits} parts"
    if plan.group_size is not None:
        counts[-1] += f" in groups of {plan.group_size}"
    return f"{' × '.join(counts)}, {_count(plan.num_layers, 'layer')}"


def percent(share: float) -> str:
    """Return a share as text, in percent."""
    return f"{100 * share:.1f} %"


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}es" if noun.endswith("ch") else f"{number:,} {noun}s"
