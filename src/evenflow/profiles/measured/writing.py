"""Measured runs as the text of a CSV file, which `read_runs` reads: for filling in what logs do not state."""

import csv
from collections.abc import Iterable
from io import StringIO

from evenflow.profiles.measured.reading import COLUMNS
from evenflow.profiles.measured.run import NEEDED, MeasuredRun

_ALWAYS = frozenset(("id", "hardware", "gpus", "dp", "step_s", *NEEDED))
"""Columns that are there even where no run states them."""


def format_runs(runs: Iterable[MeasuredRun]) -> str:
    """Return the text of a CSV file with a row for each run, and the columns that any of them states.

    Columns that a prediction needs are always there, empty where a run does not state them. What was assumed is not
    written.
    """
    rows = [{name: getattr(run, name) for name in COLUMNS} for run in runs]
    columns = [name for name in COLUMNS if name in _ALWAYS or any(row[name] is not None for row in rows)]
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)
