"""Result files: checked before the long work starts, written whole or not at all, named at the end."""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from evenflow.cli.shared.picture_files import check_picture_file, picture_content
from evenflow.errors import FileError, InputError
from evenflow.export.results.json_text import format_object
from evenflow.language import _

JSON = "--json"
SVG = "--svg"


class Outputs:
    """The files that a command was asked to write, by the option (or words) that names each.

    Creating them refuses paths that cannot be written, that are the same, or that are an input file, and leaves nothing
    behind; missing folders are made when a file is written.
    """

    def __init__(
        self,
        paths: Mapping[str, Path | None],
        *,
        pictures: Mapping[str, Path | None] | None = None,
        inputs: Mapping[str, Path | None] | None = None,
    ) -> None:
        """Check `paths` and `pictures`; ``--svg`` is a picture in either."""
        pictures = {SVG: paths.get(SVG), **(pictures or {})}
        self._paths = {option: path for option, path in {**paths, **pictures}.items() if path is not None}
        self._pictures = frozenset(pictures)
        self._written: list[Path] = []
        taken = {os.path.realpath(path): name for name, path in (inputs or {}).items() if path is not None}
        for option, path in self._paths.items():
            real = os.path.realpath(path)
            if real in taken and not _is_special(path):
                raise InputError(
                    value=str(path),
                    rule=_("must not be the same file as {taken}", taken=taken[real]),
                    place=option,
                    remedy=_("name another file"),
                )
            taken[real] = option
            _check_writable(path, option)
            if option in self._pictures:
                check_picture_file(path, place=option)

    def write(self, option: str, make_text: Callable[[], str]) -> None:
        """Make and write the text of `option` where it was asked for; of a picture the SVG, which may become a PNG."""
        if option not in self._paths:
            return
        path, text = self._paths[option], make_text()
        content = picture_content(path, text) if option in self._pictures else text
        write_whole(path, content.encode() if isinstance(content, str) else content, option=option)
        self._written.append(path)

    def write_json(self, make_fields: Callable[[], Mapping[str, object]]) -> None:
        """Make and write the fields of ``--json`` where it was asked for."""
        self.write(JSON, lambda: format_object(make_fields()))

    @property
    def sentence(self) -> str:
        """The files written so far, as ``wrote plan.json, plan.svg``; empty for none."""
        return "wrote " + ", ".join(map(str, self._written)) if self._written else ""


def write_whole(path: Path, content: bytes, *, option: str) -> None:
    """Write `content` to `path` at once: a temporary file beside it, then a rename. Folders are made.

    Raises:
        FileError: the file cannot be written.
    """
    if _is_special(path):
        path.write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            temporary.replace(target)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _unwritable(path, option, error) from None


def _check_writable(path: Path, option: str) -> None:
    try:
        if path.is_dir():
            raise InputError(value=str(path), rule=_("must be a file, not a folder"), place=option)
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
    """Return whether the path is a terminal, a pipe or another device, which a rename would destroy."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: Path, option: str, error: Exception) -> FileError:
    return FileError.from_os(path, error, action="write", remedy=_("choose another path for {option}", option=option))
