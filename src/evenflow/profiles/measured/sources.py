"""Reads measured runs from CSV files, logs and folders of logs."""

from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.fields import read_head
from evenflow.language import _
from evenflow.profiles.measured.logs.log_file import read_log
from evenflow.profiles.measured.logs.log_folder import runs_of_folder
from evenflow.profiles.measured.logs.log_format import LogFormats
from evenflow.profiles.measured.logs.logged_run import measured_run
from evenflow.profiles.measured.reading import COLUMNS, read_runs
from evenflow.profiles.measured.run import MeasuredRun

_HEAD_BYTES = 1 << 16
_FEWEST_COLUMNS = 3
_PACKED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"PK\x03\x04": "unzip"}
"""Beginnings of packed files, and what unpacks them."""


class Source(Enum):
    """What measured runs are read from."""

    CSV = "csv"
    LOG = "log"
    FOLDER = "folder"


def read_measured(paths: Iterable[Path], *, formats: LogFormats) -> tuple[MeasuredRun, ...]:
    """Return the runs of CSV files, logs in one of the formats and folders of logs, in their order.

    What a log does not state is None.

    Raises:
        InputError: a source that cannot be read or has no run, or that is given twice.
    """
    runs: list[MeasuredRun] = []
    known: set[Path] = set()
    for path in paths:
        if path in known:
            raise InputError(value=str(path), rule=_("must be given once"), place=str(path))
        known.add(path)
        runs.extend(_read(path, formats))
    return tuple(runs)


def _read(path: Path, formats: LogFormats) -> tuple[MeasuredRun, ...]:
    kind = sniff(path)
    if kind is Source.FOLDER:
        return runs_of_folder(path, formats=formats)
    return read_runs(path) if kind is Source.CSV else (measured_run((read_log(path, formats=formats),), place=path),)


def sniff(path: Path) -> Source:
    """Return what a path leads to: a CSV file has that end, or columns of measured runs in its first line.

    Raises:
        InputError: what cannot be read, or is packed.
    """
    try:
        if path.is_dir():
            return Source.FOLDER
        if path.suffix == ".csv" or not path.is_file():
            return Source.CSV if path.suffix == ".csv" else Source.LOG
        head = read_head(path, _HEAD_BYTES)
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None
    for beginning, unpack in _PACKED.items():
        if head.startswith(beginning):
            raise FileError(path, reason=_("it is packed"), remedy=_("unpack it first: {command}", command=unpack))
    cells = head.partition(b"\n")[0].decode(errors="replace").strip("\ufeff\r").split(",")
    return Source.CSV if sum(cell in COLUMNS for cell in cells) >= _FEWEST_COLUMNS else Source.LOG
