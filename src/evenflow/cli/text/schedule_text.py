"""Results of ``evenflow schedule`` as text and picture."""

from fractions import Fraction

from evenflow.baselines.equal_stages import idle_shares, peak_live
from evenflow.cli.text.tables import aligned
from evenflow.draw.plan_picture import timeline_svg
from evenflow.draw.text_grid import text_grid
from evenflow.export.results.schedule_fields import Formula
from evenflow.schedule import Bubble, Place, Schedule
from evenflow.simulate import Simulation, idle_bubbles
from evenflow.simulate.even_layout import even_layout
from evenflow.units import milliseconds

_COLUMNS = {
    Place.START: "before",
    Place.FORWARDS: "F to F",
    Place.TURN: "F to B",
    Place.RETURN: "B to F",
    Place.BACKWARDS: "B to B",
    Place.END: "after",
}


def shown_text(simulation: Simulation, formula: Formula) -> str:
    """Return a family on equal stages: grid, bubbles, live activations."""
    paragraphs = [_headline(simulation), _grid(simulation)]
    paragraphs.append(f"{_step(simulation)}\n{bubble_table(simulation, formula)}")
    paragraphs.append(live_note(simulation))
    return "\n\n".join(paragraphs)


def checked_text(simulation: Simulation, *, place: str) -> str:
    """Return sizes, idle time and live activations of an order that is fine."""
    live = peak_live(simulation)
    idle = idle_shares(simulation)
    rows = [[str(rank), f"{100 * float(idle[rank]):.1f}", number(live[rank])] for rank in range(len(live))]
    return "\n\n".join(
        [
            f"{place}: complete, and it can finish",
            f"{_headline(simulation)}\n{_step(simulation)}",
            aligned(["rank", "idle %", "peak live"], rows),
        ]
    )


def bubble_table(simulation: Simulation, formula: Formula) -> str:
    """Return idle time of every rank by place, ``formula | simulated`` in ms, and its live activations."""
    timeline = even_layout(simulation.timeline)
    simulated = [idle_bubbles(timeline, rank) for rank in range(len(formula))]
    places = [place for place in Place if any(bubble.place is place for bubbles in simulated for bubble in bubbles)]
    live, idle = peak_live(simulation), idle_shares(simulation)
    rows = []
    for rank, bubbles in enumerate(simulated):
        pairs = (f"{_lengths(formula[rank], place)} | {_lengths(bubbles, place)}" for place in places)
        rows.append([str(rank), *pairs, f"{100 * float(idle[rank]):.1f}", number(live[rank])])
    header = ["rank", *(_COLUMNS[place] for place in places), "idle %", "peak live"]
    text = ["bubbles in ms, by formula | simulated:"]
    if any(bubbles is None for bubbles in formula):
        text.append("(? means no formula for these sizes and times)")
    return f"{' '.join(text)}\n{aligned(header, rows)}"


def live_note(simulation: Simulation) -> str:
    """Return peak activations beside those of F-then-B."""
    schedule, live = simulation.timeline.schedule, peak_live(simulation)
    most, mean, all_of_them = max(live), sum(live, Fraction(0)) / len(live), schedule.num_microbatches
    return (
        f"live activations in microbatches: {number(most)} on the fullest rank, {number(mean)} on average; F-then-B "
        f"keeps all {all_of_them} on every rank\n"
        f"saved against F-then-B: {_percent(1 - most / all_of_them)} on the fullest rank, "
        f"{_percent(1 - mean / all_of_them)} on average"
    )


def schedule_svg(simulation: Simulation) -> str:
    """Return a picture of the timeline, with live activations as memory."""
    schedule = simulation.timeline.schedule
    return timeline_svg(
        simulation,
        memory_limit_bytes=None,
        title=f"{schedule.name}: {sizes_text(schedule)}",
        certificate="Equal stages. Memory: 1 GB stands for the activations of one microbatch on a whole rank.",
    )


def sizes_text(schedule: Schedule) -> str:
    """Return the sizes of a schedule as text."""
    parts = [
        _counted(schedule.num_ranks, "rank", "ranks"),
        _counted(schedule.num_chunks, "chunk", "chunks"),
    ]
    text = f"{' x '.join(parts)}, {_counted(schedule.num_microbatches, 'microbatch', 'microbatches')}"
    if schedule.group_size is not None:
        text += f" in groups of {schedule.group_size}"
    return text if schedule.sequence_splits == 1 else f"{text}, sequences in {schedule.sequence_splits} parts"


def number(value: Fraction) -> str:
    """Return a number of microbatches with at most two decimals."""
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def _headline(simulation: Simulation) -> str:
    schedule, costs = simulation.timeline.schedule, simulation.costs
    forward_ns, backward_ns, weight_ns = (
        int(times[0]) for times in (costs.forward_ns, costs.backward_ns, costs.weight_ns)
    )
    text = f"forward {_ms(forward_ns)} ms, backward {_ms(backward_ns)} ms"
    if schedule.splits_backward:
        text += f", {_ms(weight_ns)} ms of it for the weights"
    return f"{schedule.name}: {sizes_text(schedule)}; equal stages, {text}"


def _grid(simulation: Simulation) -> str:
    grid, unit_ns = text_grid(simulation.timeline)
    if not grid:
        return f"(no grid: at one column for each {_ms(unit_ns)} ms it would be too wide; --svg draws it)"
    return f"{grid}\n(one column is {_ms(unit_ns)} ms)"


def _step(simulation: Simulation) -> str:
    shares = idle_shares(simulation)
    return (
        f"one step takes {_ms(simulation.makespan_ns)} ms; "
        f"{_percent(sum(shares, Fraction(0)) / len(shares))} of all ranks' time is idle"
    )


def _lengths(bubbles: tuple[Bubble, ...] | None, place: Place) -> str:
    """Return the bubbles at one place, like ``3`` or ``4x2 + 6``."""
    if bubbles is None:
        return "?"
    terms = [
        _ms(bubble.length_ns) if bubble.count == 1 else f"{bubble.count}x{_ms(bubble.length_ns)}"
        for bubble in bubbles
        if bubble.place is place
    ]
    return " + ".join(terms) or "0"


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.6f}".rstrip("0").rstrip(".")


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.1f} %"


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
