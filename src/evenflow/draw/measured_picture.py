"""A measured step under its prediction: two rows for each rank on one time axis."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.page import MARGIN, PLOT_LEFT, WIDTH
from evenflow.draw.palette import HAIRLINE, INK, MUTED
from evenflow.draw.parts.axes import TimeScale, show_time, time_axis, time_grid
from evenflow.draw.parts.block_numbers import choose_numbering, draw_numbers, numbering_words
from evenflow.draw.parts.legend import timeline_legend
from evenflow.draw.parts.timeline_blocks import TimelineRows, draw_blocks, make_blocks
from evenflow.draw.svg_elements import document, fit_text, group, path, rect, text
from evenflow.errors import InputError
from evenflow.language import ENGLISH, _, speaking
from evenflow.simulate import Timeline

_ROWS = ("predicted", "measured")
_LEGEND_BASELINE = 110


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Step:
    timeline: Timeline
    recompute_ns: NDArray[np.int64]


@speaking(ENGLISH)
def measured_svg(predicted: Timeline, measured: Timeline, *, title: str) -> str:
    """Return the picture of prediction and measured step as the text of an SVG file.

    ::

        rank 0  predicted  ▒▒▒▓▓▓
                measured   ▒▒▒ ▓▓▓▓
        rank 1  predicted    ▒▒▓▓
                measured      ▒▒▓▓

    Raises:
        InputError: timelines of different orders.
    """
    schedule = predicted.schedule
    if measured.schedule != schedule:
        raise InputError(
            value=measured.schedule.name,
            rule=_("must have the order of the predicted one"),
            place=_("the measured timeline"),
        )
    span_ns = max(predicted.makespan_ns, measured.makespan_ns, 1)
    scale = TimeScale(left=PLOT_LEFT, width=WIDTH - MARGIN - PLOT_LEFT, span_ns=span_ns)
    count = schedule.num_ranks
    rows = TimelineRows(top=_LEGEND_BASELINE + 14, pitch=max(4, min(24, 480 // (2 * count))), count=2 * count)
    steps = []
    for offset, timeline in enumerate((predicted, measured)):
        step = _Step(timeline=timeline, recompute_ns=np.zeros(schedule.num_actions, dtype=np.int64))
        blocks = make_blocks(step, scale)
        steps.append(replace(blocks, ranks=2 * blocks.ranks + offset))
    numbering = choose_numbering([(blocks, rows) for blocks in steps])
    drawn: list[str] = []
    for name, blocks in zip(_ROWS, steps, strict=True):
        work = draw_blocks(blocks, rows, num_shades=schedule.num_chunks)
        drawn += group(name, work + draw_numbers(blocks, rows, numbering))
    legend = timeline_legend(
        PLOT_LEFT,
        _LEGEND_BASELINE,
        ops=schedule.used_ops,
        num_chunks=schedule.num_chunks,
        recomputes=False,
        numbers=numbering_words(numbering),
    )
    between = "".join(f"M{MARGIN} {rows.y(2 * rank)}H{scale.right}" for rank in range(1, count))
    parts = [
        text(MARGIN, 48, fit_text(title, 22, WIDTH - 2 * MARGIN, bold=True), size=22, bold=True),
        text(MARGIN, 74, _figures(predicted, measured), size=14, fill=MUTED),
        *group("legend", legend),
        rect(PLOT_LEFT, rows.top, scale.width, rows.bottom - rows.top, fill="none", name="timeline-plot"),
        time_grid(scale, rows.top, rows.bottom),
        *_labels(rows),
        *drawn,
        path(between, stroke=HAIRLINE),
        *(_end(scale, timeline, name, rows) for name, timeline in zip(_ROWS, (predicted, measured), strict=True)),
        *time_axis(scale, rows.bottom + 3),
    ]
    return document(width=WIDTH, height=rows.bottom + 3 + 20 + MARGIN, label=title, parts=parts)


def _figures(predicted: Timeline, measured: Timeline) -> str:
    error = predicted.makespan_ns / max(measured.makespan_ns, 1) - 1
    return (
        f"one step: predicted {show_time(predicted.makespan_ns)}, measured {show_time(measured.makespan_ns)} "
        f"({error:+.1%})".replace("%", " %").replace("-", "−")
    )


def _labels(rows: TimelineRows) -> list[str]:
    """Draw rank and kind of every row, where rows are high enough."""
    size = max(7, min(11, rows.pitch - 1))
    labels = []
    for row in range(rows.count):
        y = rows.y(row) + rows.ink / 2 + 0.36 * size
        if row % 2 == 0:
            labels.append(text(MARGIN, y, f"rank {row // 2}", size=size))
        if rows.pitch >= 9:
            labels.append(text(PLOT_LEFT - 6, y, _ROWS[row % 2], size=min(size, 9), fill=MUTED, anchor="end"))
    return labels


def _end(scale: TimeScale, timeline: Timeline, name: str, rows: TimelineRows) -> str:
    """Draw a line where a step ends."""
    at = scale.tenth(timeline.makespan_ns) / 10
    extra = f'class="{name}-end"' + (' stroke-dasharray="3 2"' if name == "predicted" else "")
    return path(f"M{at:.1f} {rows.top - 4}V{rows.bottom + 3}", stroke=INK, extra=extra)
