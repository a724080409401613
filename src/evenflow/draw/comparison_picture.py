"""Several plans under one another on one time axis, each with its makespan, bubbles and peak memory."""

from collections.abc import Sequence

from evenflow.draw.page import BARS_LEFT, BARS_WIDTH, MARGIN, PLOT_LEFT, PLOT_WIDTH, WIDTH, rank_labels
from evenflow.draw.palette import INK, LIMIT, MUTED, PAPER
from evenflow.draw.parts.axes import TimeScale, memory_unit, show_memory, show_time, time_axis, time_grid
from evenflow.draw.parts.block_numbers import choose_numbering, draw_numbers, numbering_words
from evenflow.draw.parts.legend import memory_legend, timeline_legend
from evenflow.draw.parts.memory_strips import MemoryScale, memory_scale
from evenflow.draw.parts.rank_bars import bar_heading, peak_bars
from evenflow.draw.parts.timeline_blocks import Blocks, TimelineRows, draw_blocks, make_blocks
from evenflow.draw.plan_figures import ideal_figure, peak_figure, percent, sizes
from evenflow.draw.svg_elements import clean, document, fit_text, group, path, rect, text, text_width
from evenflow.errors import InputError
from evenflow.language import ENGLISH, _, speaking
from evenflow.simulate import Simulation

_LEGEND_BASELINE = 86
_LEGEND_LINE = 26
_HEADING = 26
"""Pixels of a panel's heading."""
_GAP = 22
_MARKER_ROOM = 84
"""Pixels right of the longest plan, for the label of its makespan."""
_TITLE_SIZE = 14


@speaking(ENGLISH)
def comparison_svg(simulations: Sequence[tuple[str, Simulation]], *, memory_limit_bytes: int | None) -> str:
    """Return the picture of several named plans as the text of an SVG file.

    The reference for the differences, a dotted line in the other panels, is the shortest plan within the limit, or
    the shortest of all where none fits. Raises InputError when there is no plan.
    """
    if not simulations:
        raise InputError(rule=_("must be at least one, to be compared"), place="plans")
    reference = _reference([simulation for _, simulation in simulations], memory_limit_bytes)
    longest_ns = max(simulation.makespan_ns for _, simulation in simulations)
    scale = TimeScale(left=PLOT_LEFT, width=PLOT_WIDTH - _MARKER_ROOM, span_ns=max(longest_ns, 1))
    memory = _shared_memory(simulations, memory_limit_bytes)
    num_shades = max(simulation.plan.num_chunks for _, simulation in simulations)

    top = _LEGEND_BASELINE + _LEGEND_LINE * (2 if memory else 1)
    timelines: list[tuple[Blocks, TimelineRows]] = []
    for _name, simulation in simulations:
        rows = TimelineRows(
            top=top + _HEADING, pitch=_pitch(simulation.plan.num_ranks), count=simulation.plan.num_ranks
        )
        timelines.append((make_blocks(simulation, scale), rows))
        top = rows.bottom + _GAP
    numbering = choose_numbering(timelines)
    panels: list[str] = []
    for index, ((name, simulation), (blocks, rows)) in enumerate(zip(simulations, timelines, strict=True)):
        panel = _heading(name, simulation, reference, memory_limit_bytes, rows.top - _HEADING + 14)
        work = draw_blocks(blocks, rows, num_shades=num_shades) + draw_numbers(blocks, rows, numbering)
        panel += _panel(simulation, reference, scale, rows, memory, work)
        panels += group(f"plan-{index}", panel)
    bottom = top - _GAP + 8
    parts = [
        *_header(simulations, memory, num_shades, numbering_words(numbering)),
        *panels,
        *time_axis(scale, bottom),
    ]
    label = f"{len(simulations)} plans compared"
    return document(width=WIDTH, height=bottom + 20 + MARGIN, label=label, parts=parts)


def _header(
    simulations: Sequence[tuple[str, Simulation]], memory: MemoryScale | None, num_shades: int, numbers: str
) -> list[str]:
    """Draw the title and the legend of all panels."""
    first = simulations[0][1]
    count = len(simulations)
    title = f"{first.network.name}: {count} plan{'s' if count > 1 else ''} on one time axis"
    recomputes = any(simulation.costs.recompute_ns.any() for _, simulation in simulations)
    limit = memory.limit_bytes if memory else None
    limit_label = f"limit {show_memory(limit, memory.unit)}" if memory and limit is not None else ""
    over = any(not simulation.fits(limit) for _, simulation in simulations)
    ops = {op for _, simulation in simulations for op in simulation.timeline.schedule.used_ops}
    legend = timeline_legend(
        PLOT_LEFT, _LEGEND_BASELINE, ops=ops, num_chunks=num_shades, recomputes=recomputes, numbers=numbers
    )
    if memory:
        legend += memory_legend(PLOT_LEFT, _LEGEND_BASELINE + _LEGEND_LINE, limit=limit_label, over=over, curves=False)
    return [
        text(MARGIN, 48, fit_text(title, 22, WIDTH - 2 * MARGIN, bold=True), size=22, bold=True),
        text(MARGIN, _LEGEND_BASELINE, "Timeline", size=14, bold=True),
        *([text(MARGIN, _LEGEND_BASELINE + _LEGEND_LINE, "Memory", size=14, bold=True)] if memory else []),
        *group("legend", legend),
        bar_heading(BARS_LEFT, _LEGEND_BASELINE + _LEGEND_LINE, "peak memory") if memory else "",
        text(WIDTH - MARGIN, _LEGEND_BASELINE + _LEGEND_LINE, limit_label, size=12, fill=LIMIT, anchor="end"),
    ]


def _heading(
    name: str, simulation: Simulation, reference: Simulation, memory_limit_bytes: int | None, y: int
) -> list[str]:
    """Draw name and figures of a plan on one line, red where it is over the limit."""
    peak = peak_figure(simulation, memory_limit_bytes)
    figures = f"{show_time(simulation.makespan_ns)}{_difference(simulation, reference)}"
    figures += f" · bubbles {percent(simulation.bubbles.real)}, {ideal_figure(simulation)} · {sizes(simulation)} ·"
    memory = f"peak {peak.value}, {peak.note}"
    room = WIDTH - 2 * MARGIN - text_width(f"{figures}{memory}", 12) - 40
    name = clean(fit_text(name, _TITLE_SIZE, room, bold=True))
    return [
        f'<text x="{MARGIN}" y="{y}" font-size="12" fill="{INK}">'
        f'<tspan font-size="{_TITLE_SIZE}" font-weight="600">{name}</tspan>'
        f'<tspan dx="14">{clean(figures)}</tspan>'
        f'<tspan dx="4" fill="{LIMIT if peak.alarming else INK}">{clean(memory)}</tspan></text>'
    ]


def _panel(
    simulation: Simulation,
    reference: Simulation,
    scale: TimeScale,
    rows: TimelineRows,
    memory: MemoryScale | None,
    work: Sequence[str],
) -> list[str]:
    """Draw the blocks of one plan (`work`), makespan and peak bars, and a line where the reference ends."""
    end, reference_end = scale.tenth(simulation.makespan_ns) / 10, scale.tenth(reference.makespan_ns) / 10
    middle = (rows.top + rows.bottom) / 2
    parts = [time_grid(scale, rows.top, rows.bottom), *rank_labels(PLOT_LEFT - 8, rows)]
    parts += work
    if simulation is not reference:
        line = f"M{reference_end:.1f} {rows.top - 4}V{rows.bottom + 3}"
        parts.append(path(line, stroke=MUTED, extra='stroke-dasharray="2 3"'))
    parts.append(path(f"M{end:.1f} {rows.top - 2}V{rows.bottom + 1}", stroke=INK, width=1.5))
    makespan = show_time(simulation.makespan_ns)
    parts.append(rect(end + 4, middle - 9, text_width(makespan, 13, bold=True) + 5, 18, fill=PAPER))
    parts.append(text(end + 7, middle + 4, makespan, size=13, bold=True))
    if memory and simulation.network.has_memory:
        parts += peak_bars(simulation, rows, BARS_LEFT, BARS_WIDTH, memory)
    else:
        parts.append(bar_heading(BARS_LEFT, rows.top + 12, "memory not known"))
    return parts


def _reference(simulations: list[Simulation], memory_limit_bytes: int | None) -> Simulation:
    """Return the shortest plan that fits, or the shortest of all."""
    fitting = [simulation for simulation in simulations if simulation.fits(memory_limit_bytes)]
    return min(fitting or simulations, key=lambda simulation: simulation.makespan_ns)


def _difference(simulation: Simulation, reference: Simulation) -> str:
    if simulation is reference:
        return ""
    change = simulation.makespan_ns / max(reference.makespan_ns, 1) - 1
    return f" ({change:+.1%})".replace("%", " %").replace("-", "−")


def _shared_memory(simulations: Sequence[tuple[str, Simulation]], memory_limit_bytes: int | None) -> MemoryScale | None:
    """Return one scale for the bars of all plans; None where no memory is known."""
    peaks = [
        peak for _, simulation in simulations if simulation.network.has_memory for peak in simulation.peak_memory_bytes
    ]
    if not peaks:
        return None
    return memory_scale(peaks, memory_limit_bytes, memory_unit(max(*peaks, memory_limit_bytes or 0)))


def _pitch(num_ranks: int) -> int:
    return max(3, min(20, 200 // num_ranks if num_ranks <= 16 else 320 // num_ranks))
