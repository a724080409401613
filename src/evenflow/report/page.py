"""The HTML of a report: all that can be read without a script, and the data that the script draws from."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from evenflow.draw.configurations_picture import Configurations, configurations_svg
from evenflow.draw.memory_curve_picture import memory_curve_svg
from evenflow.draw.parts.axes import show_memory, time_unit
from evenflow.draw.vocabulary import Vocabulary
from evenflow.errors import InputError
from evenflow.language import _, spoken
from evenflow.report.page_sentences import page_sentences
from evenflow.report.payload import Payload, idle_fields, payload_of
from evenflow.report.shown import ReportTable, RunBlock, Shown

HEAD_ID, DATA_ID, PLAN_ID = "evenflow-head", "evenflow-data", "evenflow-plan-"
"""Names of the elements that hold the data; behind the last comes the number of a plan."""
_CAUSES = ("fill_drain", "imbalance", "recompute", "communication")
_LEADING = 3
"""Figures that stand above the timeline; the others fold open below it."""
_DASH = "–"
_DIGITS = 5
"""Digits of the longest times in a table."""


def report_html(
    shown: Sequence[Shown],
    *,
    title: str,
    ranking: ReportTable | None = None,
    configurations: Configurations | None = None,
    vocabulary: Vocabulary = Vocabulary.OURS,
    made_by: str = "evenflow",
) -> str:
    """Return the page as the text of an HTML file that loads nothing from anywhere.

    It works under its own content policy, which allows its own script and style and nothing else. `ranking` and
    `configurations` are of the search that the timelines are from; `made_by` is the program, with its version. Equal
    timelines give equal text. Raises InputError when there is no timeline.
    """
    if not shown:
        raise InputError(rule=_("must be at least one, to be shown"), place=_("timelines"))
    with vocabulary.spoken():
        search = list(_search(ranking, configurations))
        return "\n".join(_lines(shown, title, search, vocabulary, made_by)) + "\n"


def _lines(
    shown: Sequence[Shown], title: str, search: Sequence[str], vocabulary: Vocabulary, made_by: str
) -> list[str]:
    style, script = _asset("report.css"), _asset("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_fingerprint(script)}'",
            f"style-src '{_fingerprint(style)}'",
            "img-src data: blob:",
            "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return [
        "<!doctype html>",
        f'<html lang="{spoken()}">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        *_data(payload_of(shown, title=title, vocabulary=vocabulary, made_by=made_by)),
        f"<noscript><p>{_text(page_sentences()['needs_script'])}</p></noscript>",
        '<main id="report">',
        f"<h1>{_text(title)}</h1>",
        *(line for index, timeline in enumerate(shown) for line in _timeline(timeline, index, vocabulary)),
        *search,
        "</main>",
        f"<script>{script}</script>",
        "</body>",
        "</html>",
    ]


def _data(payload: Payload) -> Iterator[str]:
    """Give the elements that hold the data; no text of theirs can end an element."""
    yield f'<script type="application/json" id="{HEAD_ID}">{_json(payload.head)}</script>'
    yield f'<script type="text/plain" id="{DATA_ID}">{payload.data}</script>'
    for index, plan in enumerate(payload.plans):
        yield f'<script type="application/json" id="{PLAN_ID}{index}">{_json(plan)}</script>'


def _search(ranking: ReportTable | None, configurations: Configurations | None) -> Iterator[str]:
    """Give the section on what a search looked at: a dot for each configuration, and their ranking."""
    if ranking is None and configurations is None:
        return
    yield '<section class="ranking">'
    yield f"<h2>{_text(page_sentences()['searched'])}</h2>"
    if configurations is not None:
        yield configurations_svg(configurations)
        if configurations.note:
            yield f'<p class="note">{_text(configurations.note)}</p>'
    if ranking is not None:
        yield from _table(ranking)
    yield "</section>"


def _table(table: ReportTable) -> Iterator[str]:
    yield '<div class="scroll"><table>'
    yield f"<caption>{_text(table.title)}</caption>"
    yield "<thead><tr>" + "".join(f'<th scope="col">{_text(head)}</th>' for head in table.columns) + "</tr></thead>"
    yield "<tbody>"
    yield from ("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    yield "</tbody></table></div>"
    yield from (f'<p class="note">{_text(note)}</p>' for note in table.notes)


def _timeline(shown: Shown, index: int, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the section of the page that tells of a timeline in words and numbers."""
    said = page_sentences()
    yield f'<section id="timeline-{index}">'
    yield f"<h2>{_text(shown.name)}</h2>"
    if shown.certificate:
        yield f'<p class="certificate">{_text(shown.certificate)}</p>'
    yield from _figures(shown.figures[:_LEADING], "figures lead")
    yield '<div class="slot"></div>'
    yield from (f'<p class="note">{_text(note)}</p>' for note in shown.notes)
    if shown.decision:
        curve = []
        if shown.curve and shown.limit_bytes is not None:
            curve = [memory_curve_svg(shown.curve, limit_bytes=shown.limit_bytes)]
        advice = (f"<li>{_text(item.text)}</li>" for item in shown.decision)
        yield from _fold("decided", said["decision"], ['<ul class="decision">', *advice, "</ul>", *curve])
    if shown.figures[_LEADING:]:
        yield from _fold("further", said["figures"], _figures(shown.figures[_LEADING:], "figures"))
    yield from _fold("by-rank", said["ranks"], _ranks(shown, vocabulary))
    if shown.run:
        yield from _fold("running", said["run"], map(_run_block, shown.run))
    yield "</section>"


def _fold(name: str, title: str, lines: Iterable[str]) -> Iterator[str]:
    """Give a part that the script folds: without one, all can be read."""
    yield f'<details class="{name}" open><summary>{_text(title)}</summary>'
    yield from lines
    yield "</details>"


def _figures(figures: Sequence[tuple[str, str]], kind: str) -> Iterator[str]:
    if figures:
        yield f'<dl class="{kind}">'
        yield from (f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in figures)
        yield "</dl>"


def _run_block(block: RunBlock) -> str:
    note = f'<p class="note">{_text(block.note)}</p>' if block.note else ""
    title = f"{block.title}: {block.what}" if block.what else block.title
    return f'<div class="run"><h3>{_text(title)}</h3>{note}<pre><code>{_text(block.text)}</code></pre></div>'


def _ranks(shown: Shown, vocabulary: Vocabulary) -> Iterator[str]:
    """Give the table of the ranks: work, idle time by cause, memory."""
    said = page_sentences()
    peaks = shown.peak_bytes
    unit = vocabulary.memory_unit(max((*(peaks or ()), shown.limit_bytes or 0)))
    size, name = time_unit(shown.makespan_ns)
    digits = max(0, _DIGITS - len(str(shown.makespan_ns // size))) if size > 1 else 0
    idle_ns = (shown.makespan_ns - shown.busy_ns).tolist()
    idle = idle_fields(shown)
    listed: tuple[str, ...] = _CAUSES if shown.copies is None else (*_CAUSES, "host_copies")
    if shown.waiting_ns is not None:
        listed = ("waiting", "communication")
    times = [said["busy"], said["idle"], *(said[_word(cause)] for cause in listed)]
    times += [] if shown.exposed_ns is None else [said["exposed"]]
    heads = [said["rank"], *(f"{head}, {name}" for head in times), said["peak"]]
    yield '<table class="ranks">'
    yield f"<caption>{_text(said['idle_table'])}</caption>"
    yield "<thead><tr>" + "".join(f'<th scope="col">{_text(head)}</th>' for head in heads) + "</tr></thead><tbody>"
    for rank, busy_ns in enumerate(shown.busy_ns.tolist()):
        causes = (
            [_DASH] * len(listed)
            if idle is None
            else [_number(idle[rank][f"{cause}_ns"] / size, digits) for cause in listed]
        )
        causes += [] if shown.exposed_ns is None else [_number(shown.exposed_ns[rank] / size, digits)]
        peak = _DASH if peaks is None else show_memory(peaks[rank], unit)
        values = (_number(busy_ns / size, digits), _number(idle_ns[rank] / size, digits), *causes, peak)
        cells = "".join(f"<td>{_text(value)}</td>" for value in values)
        yield f'<tr><th scope="row">{_text(said["rank_label"].format(rank=rank))}</th>{cells}</tr>'
    yield "</tbody></table>"


def _word(cause: str) -> str:
    return "recomputing" if cause == "recompute" else cause


def _number(value: float, digits: int) -> str:
    """Return a number with a true minus; what rounds to nothing has none."""
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def _text(content: str) -> str:
    """Return a text as HTML."""
    return escape(content, quote=True)


def _json(text: str) -> str:
    """Return JSON in which nothing looks like the end of an element, or like a comment."""
    return text.replace("<", "\\u003c")


@cache
def _asset(name: str) -> str:
    """Return the page's script or style."""
    return files("evenflow.report").joinpath("assets", name).read_text(encoding="utf-8")


def _fingerprint(content: str) -> str:
    """Return what a content policy names an inline script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
