"""The page that pictures share: its measures, the header, and the names of the ranks beside the rows."""

from evenflow.draw.palette import INK, LIMIT, MUTED
from evenflow.draw.parts.rank_bars import VALUE_WIDTH
from evenflow.draw.parts.timeline_blocks import TimelineRows
from evenflow.draw.plan_figures import Figure
from evenflow.draw.svg_elements import fit_text, group, text, text_width
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import english

WIDTH = 1600
MARGIN = 32
PLOT_LEFT = 128
BARS_LEFT = 1368
BARS_WIDTH = WIDTH - MARGIN - BARS_LEFT - VALUE_WIDTH
PLOT_WIDTH = BARS_LEFT - 28 - PLOT_LEFT


def page_header(title: str, certificate: str, figures: list[Figure]) -> tuple[list[str], int]:
    """Draw title, certificate and figures; return them and where they end."""
    room = WIDTH - 2 * MARGIN
    parts = [text(MARGIN, 48, fit_text(title, 22, room, bold=True), size=22, bold=True)]
    y = 48
    if certificate:
        y += 24
        parts.append(text(MARGIN, y, fit_text(english(certificate), 14, room), size=14, fill=MUTED))
    y += 36
    x = float(MARGIN)
    for figure in figures:
        colour = LIMIT if figure.alarming else INK
        parts.append(text(x, y, figure.label, size=12, fill=MUTED))
        parts.append(text(x, y + 23, figure.value, size=18, fill=colour, bold=True))
        parts.append(text(x, y + 42, figure.note, size=12, fill=LIMIT if figure.alarming else MUTED))
        widths = text_width(figure.label, 12), text_width(figure.value, 18, bold=True), text_width(figure.note, 12)
        x += max(widths) + 44
    return group("header", parts), y + 42


def rank_labels(x: int, rows: TimelineRows, vocabulary: Vocabulary = Vocabulary.OURS) -> list[str]:
    """Draw the names of the rows, right-aligned at `x`; where rows are low, only some of them."""
    size = max(8, min(12, rows.pitch - 1))
    every = -(-(size + 1) // rows.pitch)
    return [
        text(x, rows.y(rank) + rows.ink / 2 + 0.36 * size, vocabulary.rank(rank), size=size, anchor="end")
        for rank in range(0, rows.count, every)
    ]
