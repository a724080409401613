"""Reads measured runs from CSV files, logs and folders of logs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
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
_DECIDED = ("hidden", "layers", "seq", "gpus", "tp", "cp", "pp", "dp", "mbs", "gbs")
"""What a log must not say otherwise than the description of its run."""
_PACKED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"PK\x03\x04": "unzip"}
"""Beginnings of packed files, and what unpacks them."""


class Source(Enum):
    """What measured runs are read from."""

    CSV = "csv"
    LOG = "log"
    FOLDER = "folder"


def read_measured(paths: Iterable[Path], *, formats: LogFormats) -> tuple[MeasuredRun, ...]:
    """Return the runs of CSV files, logs in one of the formats and folders of logs, in their order.

    What a log does not state is None, unless a CSV file describes its run: a row without a step and memory whose id is
    the name of the log, with or without its ending.

    Raises:
        InputError: a source that cannot be read or has no run, or that is given twice; a log against its description.
    """
    runs: list[MeasuredRun] = []
    described: dict[str, MeasuredRun] = {}
    known: set[Path] = set()
    for path in paths:
        if path in known:
            raise InputError(value=str(path), rule=_("must be given once"), place=str(path))
        known.add(path)
        kind = sniff(path)
        read = _read(path, kind, formats)
        runs.extend(read)
        if kind is Source.CSV:
            described |= {run.id: run for run in read if run.step_s is None and run.mem_gib is None}
    return tuple(_with_descriptions(runs, described))


def _read(path: Path, kind: Source, formats: LogFormats) -> tuple[MeasuredRun, ...]:
    if kind is Source.FOLDER:
        return runs_of_folder(path, formats=formats)
    return read_runs(path) if kind is Source.CSV else (measured_run((read_log(path, formats=formats),), place=path),)


def _with_descriptions(runs: Iterable[MeasuredRun], described: Mapping[str, MeasuredRun]) -> Iterator[MeasuredRun]:
    """Yield runs with what their descriptions say; descriptions that no run has stay as they are."""
    taken: set[str] = set()
    whole: list[MeasuredRun] = []
    for run in runs:
        path = Path(run.id)
        names = (name for name in (path.name, path.stem) if name in described and described[name] is not run)
        name = next(names, None)
        whole.append(run if name is None else _described(run, described[name]))
        taken |= {name} if name is not None else set()
    for run in whole:
        if described.get(run.id) is not run or run.id not in taken:
            yield run


def _described(run: MeasuredRun, description: MeasuredRun) -> MeasuredRun:
    for name in _DECIDED:
        stated, planned = getattr(run, name), getattr(description, name)
        if None not in (stated, planned) and stated != planned:
            raise InputError(
                value=stated,
                rule=_("must be {planned}, as its description {name} says", planned=planned, name=description.id),
                place=f"{run.id}: {name}",
                remedy=_("give the log of that run, or correct the row"),
            )
    open_fields = {name: getattr(description, name) for name in COLUMNS if getattr(run, name) is None}
    whole = replace(run, **open_fields)
    if whole.step_s is not None or None in (whole.tokens_s_gpu, whole.gbs, whole.seq, whole.gpus):
        return whole
    tokens, rate = whole.gbs * whole.seq, whole.tokens_s_gpu * whole.gpus  # type: ignore[operator]
    return replace(whole, step_s=tokens / rate)


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
