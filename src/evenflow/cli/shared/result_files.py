"""The files that a verb writes, as its request names them."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from evenflow.asking import question_of
from evenflow.cli.shared.options import HTML_FILE, JSON_FILE, SVG_FILE, TRACE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFiles:
    """Where the results of a verb about one plan go: numbers, a picture, a report and a trace; None: not written."""

    json_file: Path | None = field(default=None, metadata=JSON_FILE)
    svg_file: Path | None = field(default=None, metadata=SVG_FILE)
    html_file: Path | None = field(default=None, metadata=HTML_FILE)
    trace_file: Path | None = field(default=None, metadata=TRACE_FILE)


def paths_of(request: Any) -> dict[str, Path | None]:
    """Return the files that a request asks to write, by their options; None: not written."""
    paths: dict[str, Path | None] = {}
    for asking in fields(request):
        question, value = question_of(asking), getattr(request, asking.name)
        if question is not None and question.group is not None:
            paths |= paths_of(value)
        elif question is not None and question.is_written:
            paths[question.option] = value
    return paths
