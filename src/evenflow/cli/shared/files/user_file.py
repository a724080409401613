"""A file of the user's own, of which others are made beside it, or which is edited in place."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """A file and what is in it."""

    path: Path
    text: str
    """The whole file, with its byte order mark where it has one, so that it can be written back byte for byte."""

    @classmethod
    def read(cls, path: Path) -> "UserFile":
        """Read the file; raises InputError."""
        text = read_text(path)
        has_mark = path.read_bytes().startswith(codecs.BOM_UTF8)
        return cls(path=path, text=f"\ufeff{text}" if has_mark else text)

    def beside(self, label: str, *, folder: Path | None = None) -> Path:
        """Return the name of a file made from this one: ``train.planned.yaml`` beside ``train.yaml``."""
        return (folder or self.path.parent) / f"{self.path.stem}.{label}{self.path.suffix}"
