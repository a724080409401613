"""CSV files of measured runs, read and written, for filling in what logs do not state.

Reading is strict, with one message that names file, line and column.
"""

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from io import StringIO
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import did_you_mean, read_text
from evenflow.language import _
from evenflow.profiles.measured.run import NEEDED, MeasuredRun

COLUMNS = tuple(field.name for field in fields(MeasuredRun) if field.name != "assumed")
"""All that a file may have, in any order."""
_NAMING = ("id", "source", "ref")
"""Made up where a file has no such column; never empty where it has one."""
_MEASURED = ("step_s", "mem_gib")
_MAY_BE_ZERO = frozenset({"experts", "active_experts", "expert_ffn", "shared_experts", "mtp_layers"})
_LARGEST = 10**15
"""No whole number of a training run is larger."""
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet would compute; such texts are written with an apostrophe before them."""
LEAST_REAL, MOST_REAL = 1e-6, 1e9
"""Nor are seconds, GiB and rates smaller or larger."""


def read_runs(path: Path) -> tuple[MeasuredRun, ...]:
    """Return the rows of a CSV file as they are stated, in their order.

    A file must have the columns of `NEEDED` and one of ``step_s`` and ``mem_gib``; any of `COLUMNS` may be there.

    Raises:
        InputError: a file that cannot be read or is no CSV, with columns of its own or too few of them, without rows,
            with a number that is none, with an empty id, source or ref, or with an id twice.
    """
    return parse_runs(read_text(path), file=str(path))


def parse_runs(text: str, *, file: str) -> tuple[MeasuredRun, ...]:
    """Return the rows of the text of a CSV file, as `read_runs` does; `file` names it in messages."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    runs: dict[str, MeasuredRun] = {}
    try:
        header = next(reader, [])
        _check_header(header, file=file)
        for cells in reader:
            line = reader.line_num
            place = _("{file}, line {line}", file=file, line=line)
            if len(cells) != len(header):
                rule = _("must have as many cells as the header ({count})", count=len(header))
                raise InputError(value=len(cells), rule=rule, place=place)
            names = {"id": f"{Path(file).name}:{line}", "source": Path(file).name, "ref": f"{file}:{line}"}
            run = _run(names | dict(zip(header, cells, strict=True)), place=place)
            if run.id in runs:
                raise InputError(value=run.id, rule=_("must be in the file only once"), place=f"{place}: id")
            runs[run.id] = run
    except csv.Error as error:
        place = _("{file}, line {line}", file=file, line=reader.line_num)
        raise InputError(rule=_("must be CSV ({problem})", problem=error), place=place) from None
    if not runs:
        raise InputError(rule=_("must have a row below the header"), place=file)
    return tuple(runs.values())


def _check_header(header: list[str], *, file: str) -> None:
    place = _("{file}, line {line}", file=file, line=1)
    for name in header:
        if name not in COLUMNS:
            remedy = did_you_mean(name, COLUMNS) or _("the columns are {names}", names=", ".join(COLUMNS))
            raise InputError(rule=_("is an unknown column"), place=f"{place}: {name}", remedy=remedy)
        if header.count(name) > 1:
            remedy = _("keep one of the two")
            raise InputError(rule=_("is given twice"), place=f"{place}: {name}", remedy=remedy)
    missing = ", ".join(name for name in NEEDED if name not in header)
    if missing:
        remedy = _("every prediction needs {names}", names=", ".join(NEEDED))
        raise InputError(rule=_("must have the column {names}", names=missing), place=place, remedy=remedy)
    if not any(name in header for name in _MEASURED):
        rule = _("must have the column {names}", names=" / ".join(_MEASURED))
        raise InputError(rule=rule, place=place, remedy=_("give what was measured"))


def _run(cells: Mapping[str, str], *, place: str) -> MeasuredRun:
    for name in _NAMING:
        if not cells[name].strip():
            raise InputError(rule=_("must not be empty"), place=f"{place}: {name}")
    return MeasuredRun(**{name: _READERS[name](cell.strip(), name, place) for name, cell in cells.items()})  # type: ignore[arg-type]


def _text(cell: str, name: str, place: str) -> str | None:
    return (cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell) or None


def _flag(cell: str, name: str, place: str) -> bool | None:
    if cell not in ("", "0", "1"):
        raise InputError(value=cell, rule=_("must be 0, 1 or empty"), place=f"{place}: {name}")
    return None if cell == "" else cell == "1"


def _integer(cell: str, name: str, place: str) -> int | None:
    if cell == "":
        return None
    least = 0 if name in _MAY_BE_ZERO else 1
    value = int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= len(str(_LARGEST)) else -1
    if not least <= value <= _LARGEST:
        rule = _("must be a whole number of at least {least}", least=least)
        raise InputError(value=cell, rule=rule, place=f"{place}: {name}")
    return value


def _real(cell: str, name: str, place: str) -> float | None:
    if cell == "":
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not LEAST_REAL <= value <= MOST_REAL or "_" in cell:
        rule = _("must be a number from {least:g} to {most:,.0f}", least=LEAST_REAL, most=MOST_REAL)
        raise InputError(value=cell, rule=rule, place=f"{place}: {name}")
    return value


_READER_OF_TYPE: Mapping[object, Callable[[str, str, str], object]] = {
    str: _text,
    str | None: _text,
    bool | None: _flag,
    int | None: _integer,
    float | None: _real,
}
_READERS = {field.name: _READER_OF_TYPE[field.type] for field in fields(MeasuredRun) if field.name in COLUMNS}


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
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return f"'{text}" if _FORMULA.match(text) else text
