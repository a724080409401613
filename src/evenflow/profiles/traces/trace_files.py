"""The traces in a folder."""

from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.language import _

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
        entries = sorted(folder.iterdir(), key=_natural)
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


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Return a key that sorts trace_view2 before trace_view10."""
    key: list[tuple[int, int | str]] = []
    for character in path.name:
        if character.isdecimal():
            digit = int(character)
            if key and isinstance(key[-1][1], int):
                key[-1] = (0, key[-1][1] * 10 + digit)
            else:
                key.append((0, digit))
        else:
            key.append((1, character))
    return key
