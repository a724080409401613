"""One plan as a picture: its timeline, and under it the memory of every rank on the same time axis.

title, certificate
makespan | bubbles | peak memory | schedule
Timeline  legend                            busy
rank 0    ▒▒▒▒▒▓▓▓▓▓▓▓                      ▬▬▬▬
          └─────┴─────┴ time
Memory    legend                            peak
rank 0    ▁▂▃▄▃▄▃▂▁  - - limit              ▬▬|▬
          └─────┴─────┴ time
"""

from evenflow.draw.page import (
    BARS_LEFT,
    BARS_WIDTH,
    MARGIN,
    PLOT_LEFT,
    PLOT_WIDTH,
    WIDTH,
    page_header,
    rank_labels,
)
from evenflow.draw.palette import LIMIT, MUTED
from evenflow.draw.parts.axes import TimeScale, show_memory, time_axis, time_grid
from evenflow.draw.parts.block_numbers import choose_numbering, draw_numbers, numbering_words
from evenflow.draw.parts.legend import memory_legend, timeline_legend
from evenflow.draw.parts.memory_strips import draw_memory, memory_labels, memory_scale
from evenflow.draw.parts.rank_bars import bar_heading, busy_bars, peak_bars
from evenflow.draw.parts.timeline_blocks import (
    TimelineRows,
    draw_blocks,
    draw_copies,
    draw_encoders,
    draw_pairs,
    make_blocks,
)
from evenflow.draw.plan_figures import plan_figures
from evenflow.draw.svg_elements import document, group, rect, text
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import ENGLISH, speaking
from evenflow.simulate import Simulation

_AXIS_HEIGHT = 20
_HEADING_GAP = 14
"""Pixels from the baseline of a heading to its panel."""


@speaking(ENGLISH)
def timeline_svg(
    simulation: Simulation,
    *,
    memory_limit_bytes: int | None,
    title: str,
    certificate: str = "",
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> str:
    """Return the picture of a plan as the text of an SVG file.

    `certificate` is a sentence about how good the plan is, shown under the title. The same simulation always gives
    the same text. Where the network has no memory, the picture says so instead of drawing curves.
    """
    parts, bottom = page_header(title, certificate, plan_figures(simulation, memory_limit_bytes, vocabulary))
    panels, bottom = plan_panels(simulation, bottom + 44, memory_limit_bytes, vocabulary)
    return document(width=WIDTH, height=bottom + MARGIN, label=title, parts=parts + panels)


def plan_panels(
    simulation: Simulation,
    baseline: int,
    memory_limit_bytes: int | None,
    vocabulary: Vocabulary = Vocabulary.OURS,
    *,
    span_ns: int = 1,
    most_bytes: int = 0,
) -> tuple[list[str], int]:
    """Draw timeline and memory below `baseline`, that of the first heading; return them and where they end.

    The axes reach `span_ns` and `most_bytes` at least, which pictures that stand beside each other share.
    """
    scale = TimeScale(left=PLOT_LEFT, width=PLOT_WIDTH, span_ns=max(simulation.makespan_ns, span_ns))
    timeline, bottom = _timeline_panel(simulation, scale, baseline, vocabulary)
    memory, bottom = _memory_panel(simulation, scale, bottom + 40, memory_limit_bytes, vocabulary, most_bytes)
    return timeline + memory, bottom


def _timeline_panel(
    simulation: Simulation, scale: TimeScale, baseline: int, vocabulary: Vocabulary
) -> tuple[list[str], int]:
    """Draw heading with legend at `baseline`, rows and time axis; return them and where they end."""
    plan = simulation.plan
    copies = simulation.timeline.has_copies
    rows = TimelineRows(
        top=baseline + _HEADING_GAP,
        pitch=_timeline_pitch(plan.num_ranks),
        count=plan.num_ranks,
        has_copies=copies,
    )
    blocks = make_blocks(simulation, scale)
    encoded = simulation.encoded
    encoders = [] if encoded is None else draw_encoders(encoded, scale, rows)
    numbering = choose_numbering([(blocks, rows)])
    recomputes = bool(simulation.costs.recompute_ns.any())
    legend = timeline_legend(
        PLOT_LEFT,
        baseline,
        ops=simulation.timeline.schedule.used_ops,
        num_chunks=plan.num_chunks,
        recomputes=recomputes,
        numbers=numbering_words(numbering),
        copies=copies,
        pairs=simulation.hidden_ns is not None and bool(simulation.hidden_ns.any()),
        encoders=bool(encoders),
    )
    parts = [
        text(MARGIN, baseline, "Timeline", size=14, bold=True),
        *group("timeline-legend", legend),
        bar_heading(BARS_LEFT, baseline, "busy, of the makespan"),
        rect(PLOT_LEFT, rows.top, PLOT_WIDTH, rows.bottom - rows.top, fill="none", name="timeline-plot"),
        *rank_labels(PLOT_LEFT - 8, rows, vocabulary),
        *group(
            "timeline",
            encoders
            + draw_blocks(blocks, rows, num_shades=plan.num_chunks)
            + draw_copies(simulation.timeline, scale, rows)
            + draw_pairs(simulation.timeline, scale, rows)
            + draw_numbers(blocks, rows, numbering),
        ),
        *group("busy", busy_bars(simulation, rows, BARS_LEFT, BARS_WIDTH)),
        *time_axis(scale, rows.bottom + 3),
    ]
    return parts, rows.bottom + 3 + _AXIS_HEIGHT


def _memory_panel(
    simulation: Simulation,
    scale: TimeScale,
    baseline: int,
    memory_limit_bytes: int | None,
    vocabulary: Vocabulary,
    most_bytes: int,
) -> tuple[list[str], int]:
    """Draw heading with legend at `baseline`, strips and time axis; return them and where they end."""
    heading = text(MARGIN, baseline, "Memory", size=14, bold=True)
    if not simulation.network.has_memory:
        no_memory = "The source of this model gives no memory: there are no curves, and no limit can be checked."
        return [heading, text(PLOT_LEFT, baseline, no_memory, size=14, fill=MUTED)], baseline
    peaks = list(simulation.peak_memory_bytes)
    unit = vocabulary.memory_unit(max(*peaks, most_bytes, memory_limit_bytes or 0))
    memory = memory_scale([*peaks, most_bytes], memory_limit_bytes, unit)
    limit = "" if memory_limit_bytes is None else f"limit {show_memory(memory_limit_bytes, unit)}"
    over = not simulation.fits(memory_limit_bytes)
    rows = TimelineRows(top=baseline + _HEADING_GAP, pitch=_memory_pitch(len(peaks)), count=len(peaks))
    parts = [
        heading,
        *group("memory-legend", memory_legend(PLOT_LEFT, baseline, limit=limit, over=over)),
        bar_heading(BARS_LEFT, baseline, "peak"),
        text(WIDTH - MARGIN, baseline, limit, size=12, fill=LIMIT, anchor="end"),
        rect(PLOT_LEFT, rows.top, PLOT_WIDTH, rows.bottom - rows.top, fill="none", name="memory-plot"),
        time_grid(scale, rows.top, rows.bottom),
        *rank_labels(MARGIN + 44, rows, vocabulary),
        *memory_labels(PLOT_LEFT - 6, rows, memory),
        *group("memory", draw_memory(simulation, scale, rows, memory)),
        *group("peaks", peak_bars(simulation, rows, BARS_LEFT, BARS_WIDTH, memory)),
        *time_axis(scale, rows.bottom + 3),
    ]
    return parts, rows.bottom + 3 + _AXIS_HEIGHT


def _timeline_pitch(num_ranks: int) -> int:
    return max(4, min(36, 360 // num_ranks if num_ranks <= 16 else 640 // num_ranks))


def _memory_pitch(num_ranks: int) -> int:
    return max(12, min(96, 1280 // num_ranks))
