"""The traces in a folder."""

from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.language import _
from evenflow.profiles.file_order import by_number

SUFFIXES = (".json", ".json.gz", ".sqlite")
_ASCEND_FILES = ("trace_view", "msprof")
"""Beginnings of the names of timelines in an Ascend folder; other JSON files lie beside them."""


def trace_files(folder: Path) -> list[Path]:
    """Return the traces in a folder, in order of their numbers; of a file, the file itself.

    Raises:
        InputError: no folder, or no trace in it.
    """
    if folder.is_file():
        return [folder]
    try:
        entries = sorted(folder.iterdir(), key=by_number)
    except OSError as error:
        raise FileError.from_os(folder, error) from None
    traces = [path for path in entries if path.name.endswith(SUFFIXES) and path.is_file()]
    ascend = [path for path in traces if path.name.startswith(_ASCEND_FILES)]
    if not traces:
        reports = [path.name for path in entries if path.suffix == ".nsys-rep"]
        raise InputError(
            value=[path.name for path in entries[:5]],
            rule=_("must have traces: files that end in {names}", names=", ".join(SUFFIXES)),
            place=str(folder),
            remedy=_("run nsys export --type sqlite {report}", report=reports[0])
            if reports
            else _("put the trace of each stage there"),
        )
    return ascend or traces
