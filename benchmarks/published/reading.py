"""CSV files of published runs as values: strict, with one message that names file, line and column."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from io import StringIO
from pathlib import Path

from benchmarks.published.run import PublishedRun
from evenflow.errors import InputError
from evenflow.fields import nearest, read_text

DATA = Path(__file__).with_name("data")
COLUMNS = tuple(field.name for field in fields(PublishedRun) if field.name != "assumed")
_MAY_BE_ZERO = frozenset({"experts", "active_experts", "expert_ffn", "shared_experts", "mtp_layers"})
_LARGEST = 10**15
"""No number of a training run is larger."""


def read_runs(path: Path) -> tuple[PublishedRun, ...]:
    """Return the rows of a CSV file as they are stated, in their order.

    Raises:
        InputError: a file that cannot be read or is no CSV, with columns of its own or too few of them, without rows,
            with a number that is none, with a row that has no id, source or ref, or with an id twice.
    """
    return parse_runs(read_text(path), file=str(path))


def parse_runs(text: str, *, file: str) -> tuple[PublishedRun, ...]:
    """Return the rows of the text of a CSV file, as `read_runs` does; `file` names it in messages."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    runs: dict[str, PublishedRun] = {}
    try:
        header = next(reader, [])
        _check_header(header, file=file)
        for cells in reader:
            place = f"{file}, line {reader.line_num}"
            if len(cells) != len(header):
                raise InputError(
                    value=len(cells), rule=f"must have as many cells as the header ({len(header)})", place=place
                )
            run = _run(dict(zip(header, cells, strict=True)), place=place)
            if run.id in runs:
                raise InputError(value=run.id, rule="must be in the file only once", place=f"{place}: id")
            runs[run.id] = run
    except csv.Error as error:
        line = f"{file}, line {reader.line_num}"
        raise InputError(value=None, rule=f"must be CSV ({error})", place=line) from None
    if not runs:
        raise InputError(value=None, rule="must have a row below the header", place=file)
    return tuple(runs.values())


def _check_header(header: list[str], *, file: str) -> None:
    place = f"{file}, line 1"
    for name in header:
        if name not in COLUMNS:
            near = nearest(name, COLUMNS)
            remedy = f"did you mean {near!r}?" if near else f"the columns are {', '.join(COLUMNS)}"
            raise InputError(value=None, rule="is an unknown column", place=f"{place}: {name}", remedy=remedy)
        if header.count(name) > 1:
            raise InputError(value=None, rule="is there twice", place=f"{place}: {name}", remedy="keep one of the two")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(
            value=None,
            rule=f"must have the column {missing[0]}" if len(missing) == 1 else f"must have {', '.join(missing)}",
            place=place,
            remedy="leave cells empty where the source states nothing",
        )


def _run(cells: Mapping[str, str], *, place: str) -> PublishedRun:
    for name in ("id", "source", "ref"):
        if not cells[name].strip():
            raise InputError(value=None, rule="must not be empty", place=f"{place}: {name}")
    return PublishedRun(**{name: _READERS[name](cells[name].strip(), name, place) for name in COLUMNS})  # type: ignore[arg-type]


def _text(cell: str, name: str, place: str) -> str | None:
    return cell or None


def _flag(cell: str, name: str, place: str) -> bool | None:
    if cell not in ("", "0", "1"):
        raise InputError(value=cell, rule="must be 0, 1 or empty", place=f"{place}: {name}")
    return None if cell == "" else cell == "1"


def _integer(cell: str, name: str, place: str) -> int | None:
    if cell == "":
        return None
    least = 0 if name in _MAY_BE_ZERO else 1
    value = int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= len(str(_LARGEST)) else -1
    if not least <= value <= _LARGEST:
        raise InputError(value=cell, rule=f"must be a whole number of at least {least}", place=f"{place}: {name}")
    return value


def _real(cell: str, name: str, place: str) -> float | None:
    if cell == "":
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LARGEST or "_" in cell:
        raise InputError(value=cell, rule="must be a number above 0", place=f"{place}: {name}")
    return value


_READER_OF_TYPE: Mapping[object, Callable[[str, str, str], object]] = {
    str: _text,
    str | None: _text,
    bool | None: _flag,
    int | None: _integer,
    float | None: _real,
}
_READERS = {field.name: _READER_OF_TYPE[field.type] for field in fields(PublishedRun) if field.name in COLUMNS}
