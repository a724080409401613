"""Result files: checked before the long work starts, written whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evenflow.errors import InputError


def check_outputs(outputs: Mapping[str, Path | None], *, inputs: Mapping[str, Path | None] | None = None) -> None:
    """Refuse output paths (by option) that cannot be written, that are the same, or that are an input file.

    Nothing is left behind; missing folders are made when the file is written.
    """
    taken = {os.path.realpath(path): name for name, path in (inputs or {}).items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in taken and not _is_special(path):
            rule = f"the file is also {taken[real]}"
            raise InputError(value=str(path), rule=rule, place=option, remedy="name another")
        taken[real] = option
        _check_writable(path, option)


def write_text(path: Path, text: str, *, option: str) -> None:
    """Write `text` to `path` at once: a temporary file beside it, then a rename. Folders are made."""
    if _is_special(path):
        path.write_text(text, encoding="utf-8")
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(target)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _unwritable(path, option, error) from None


def _check_writable(path: Path, option: str) -> None:
    try:
        if path.is_dir():
            raise InputError(value=str(path), rule="a file is written, not a folder", place=option)
        if _is_special(path):
            return
        folder = Path(os.path.realpath(path)).parent
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise _unwritable(path, option, error) from None


def _is_special(path: Path) -> bool:
    """Whether the path is a terminal, a pipe or another device, which a rename would destroy."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: Path, option: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(
        value=str(path), rule=f"cannot write the file: {reason}", place=option, remedy="choose a path you may write to"
    )
