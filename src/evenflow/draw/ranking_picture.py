"""A ranking of degrees as a picture: what each step is spent on, and how full its devices are.

title, certificate
best step | bound | configurations
Step      legend
tensor 8, pipeline 4 x 2, data 8    ▒▒▒▒▒▒▒▓▓▓░░  412.3 ms
                                    └─────┴─────┴ time         ▬▬|▬ memory
"""

from collections.abc import Sequence

from evenflow.draw.page import BARS_LEFT, BARS_WIDTH, MARGIN, WIDTH, page_header
from evenflow.draw.palette import (
    ACTIVATION_FILL,
    HELD_LINE,
    LIMIT,
    MUTED,
    STATIC_FILL,
    backward_shades,
    forward_shades,
    input_gradient_shades,
    weight_gradient_shades,
)
from evenflow.draw.parts.axes import memory_unit, show_memory, show_time
from evenflow.draw.plan_figures import Figure
from evenflow.draw.svg_elements import document, fit_text, group, path, rect, text, text_width
from evenflow.language import ENGLISH, speaking
from evenflow.predict.memory import fullest
from evenflow.predict.prediction import BUBBLE, OPTIMIZER, STEP, Prediction
from evenflow.predict.work import Spent
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import recompute_words, split_words

_LEFT = 420
_VALUE = 90
_PITCH, _INK = 40, 24
_LINE = 20
_PRODUCTS, _ATTENTION, _OTHER = forward_shades(3)
_TENSOR, _CONTEXT, _EXPERT = backward_shades(3)
_DATA, _PIPELINE = input_gradient_shades(2)
_COLOURS = {
    Spent.PRODUCTS: _PRODUCTS,
    Spent.ATTENTION: _ATTENTION,
    Spent.OTHER: _OTHER,
    Spent.TENSOR: _TENSOR,
    Spent.CONTEXT: _CONTEXT,
    Spent.EXPERT: _EXPERT,
    Spent.DATA: _DATA,
    Spent.PIPELINE: _PIPELINE,
    BUBBLE: ACTIVATION_FILL,
    OPTIMIZER: weight_gradient_shades(1)[0],
    STEP: STATIC_FILL,
}
"""Colour of each part: computation blue, communication orange and red, waiting grey."""


@speaking(ENGLISH)
def ranking_svg(tuned: Tuned, *, rows: int, title: str) -> str:
    """Return the first rows of a ranking as the text of an SVG file; the same ranking always gives the same text."""
    ranked = contenders(tuned.ranked, rows)
    shown = [(candidate, candidate.prediction) for candidate in ranked if candidate.prediction is not None]
    parts, bottom = page_header(title, tuned.certificate(), _figures(tuned))
    top = bottom + 44
    legend, top = _legend(top, [prediction for _candidate, prediction in shown])
    room = BARS_LEFT - 28 - _VALUE - _LEFT
    scale = room / max((prediction.step_ns for _candidate, prediction in shown), default=1.0)
    bars = [element for number, row in enumerate(shown) for element in _row(number, *row, tuned, top + 18, scale)]
    limit = tuned.question.memory_limit_bytes
    heading = text(BARS_LEFT, top, f"Memory, of {show_memory(limit, memory_unit(limit))}", size=12, fill=MUTED)
    height = top + 18 + len(shown) * _PITCH + MARGIN
    return document(width=WIDTH, height=height, label=title, parts=[*parts, *legend, heading, *bars])


def _figures(tuned: Tuned) -> list[Figure]:
    best, refuted = tuned.best, tuned.num_refuted
    figures = [
        Figure(
            label="Configurations",
            value=f"{tuned.num_legal:,}",
            note=f"{refuted:,} refuted by a bound, {tuned.num_solved:,} solved",
        )
    ]
    if best is None or best.prediction is None:
        return figures
    low, high = best.prediction.interval_ns
    spread = f"four of five from {show_time(round(low))} to {show_time(round(high))}"
    utilisation = f"{100 * best.prediction.utilisation:.1f} %"
    tokens = f"{best.prediction.tokens_per_device_s:,.1f} tokens/s per device"
    return [
        Figure(label="Shortest step", value=show_time(round(best.step_ns)), note=spread),
        Figure(label="Model FLOP utilisation", value=utilisation, note=tokens),
        *figures,
    ]


def _legend(y: int, predictions: Sequence[Prediction]) -> tuple[list[str], int]:
    """Draw the legend of the parts that occur, beside the memory's; return also where it ends."""
    used = {part.name for prediction in predictions for part in prediction.parts if part.exposed_ns > 0}
    left = float(MARGIN + 56)
    parts, x = [text(MARGIN, y, "Step", size=14, bold=True)], left
    for name, colour in _COLOURS.items():
        if name not in used:
            continue
        width = 24 + text_width(name, 12) + 18
        if x + width > BARS_LEFT:
            x, y = left, y + _LINE
        parts += [rect(x, y - 11, 18, 13, fill=colour), text(x + 24, y, name, size=12)]
        x += width
    return group("legend", parts), y


def _row(number: int, candidate: Candidate, prediction: Prediction, tuned: Tuned, top: int, scale: float) -> list[str]:
    """Draw a row: name, step by part at `scale` pixels per nanosecond, fullest device, memory limit."""
    y = top + number * _PITCH
    plan = prediction.simulation.plan
    heading = f"{number + 1}. {split_words(candidate.training)}"
    more = f"microbatch {candidate.training.microbatch}, {plan.schedule}, recompute {recompute_words(plan)}"
    room = _LEFT - MARGIN - 16
    parts = [
        text(MARGIN, y + 11, fit_text(heading, 12, room), size=12),
        text(MARGIN, y + 25, fit_text(more, 11, room), size=11, fill=MUTED),
    ]
    x = float(_LEFT)
    for part in prediction.parts:
        width = part.exposed_ns * scale
        if width > 0:
            parts.append(rect(x, y, width, _INK, fill=_COLOURS.get(part.name, STATIC_FILL)))
            x += width
    parts.append(text(x + 8, y + 17, show_time(round(candidate.step_ns)), size=12))
    limit = tuned.question.memory_limit_bytes
    peak = prediction.memory[fullest(prediction.memory)].total_bytes
    parts += [
        rect(BARS_LEFT, y, BARS_WIDTH * peak / limit, _INK, fill=STATIC_FILL, stroke=HELD_LINE),
        path(f"M{BARS_LEFT + BARS_WIDTH} {y - 4}v{_INK + 8}", stroke=LIMIT, width=1.5),
        text(BARS_LEFT + BARS_WIDTH + 8, y + 17, show_memory(peak, memory_unit(limit)), size=12),
    ]
    return group(f"row-{number + 1}", parts)
