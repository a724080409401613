"""A file of the user's own for a framework: read, edited, and written beside itself or in place."""

import codecs
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from evenflow.errors import InputError
from evenflow.fields import read_text
from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets import registry
from evenflow.targets.target import Target


@dataclass(frozen=True, kw_only=True)
class TargetFile:
    """A configuration file or a launch script, and the framework that it belongs to."""

    path: Path
    text: str
    """The whole file, with its byte order mark where it has one, so that it can be written back byte for byte."""
    target: Target

    @classmethod
    def read(
        cls,
        path: Path,
        named: Target | None,
        *,
        option: str,
        does: Literal["apply", "read", "read_degrees"] = "apply",
        yaml: Target | None = None,
    ) -> "TargetFile":
        """Read the file of the framework that is `named`, or of the one that recognises it.

        `option` is the one that names frameworks, and `does` says what the framework must have. A YAML file that none
        recognises is of `yaml`, where that is given.

        Raises:
            InputError: a file that cannot be read, or whose framework cannot be told or does not do this.
        """
        content = read_text(path)
        has_mark = path.read_bytes().startswith(codecs.BOM_UTF8)
        text = f"\ufeff{content}" if has_mark else content
        able = [known for known in registry.all_targets().values() if getattr(known, does) is not None]
        is_yaml = path.suffix.lower() in (".yaml", ".yml")
        if named is None:
            target = registry.target_of_file(
                text, str(path), able=able, option=option, otherwise=yaml if is_yaml else None
            )
        elif named in able:
            target = named
        else:
            names = ", ".join(known.name for known in able)
            edited = _("must be one of {names}, whose files can be edited", names=names)
            is_read = _("must be one of {names}, whose files can be read", names=names)
            rule = edited if does == "apply" else is_read
            raise InputError(value=named.name, rule=rule, place=option)
        return cls(path=path, text=text, target=target)

    @property
    def version(self) -> str:
        """The version of the framework that the file is of, or the newest."""
        return self.target.version_of(self.text, str(self.path))

    def beside(self, label: str, *, folder: Path | None = None) -> Path:
        """Return the name of a file made from this one: ``train.planned.yaml`` beside ``train.yaml``."""
        return (folder or self.path.parent) / f"{self.path.stem}.{label}{self.path.suffix}"

    def applied(self, plan: Plan) -> str:
        """Return the text with all that `plan` decides; raises InputError where file or framework forbid it."""
        assert self.target.apply is not None  # of every target that `read` gives for it
        version = self.target.version_of(self.text, str(self.path))
        return self.target.apply(self.text, str(self.path), self.target.counted(plan, version))

    @property
    def has_comments(self) -> bool:
        """Whether a first line of the file may be a comment."""
        return self.path.suffix.lower() != ".json"


_MANY_LINES = 2000
"""Lines beyond which those that come again and again are not matched: equal lines take time with their square."""


def changed_lines(before: str, after: str, *, old: Path, new: Path) -> str:
    """Return the lines that differ, in the form that ``patch`` reads; empty where none does."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), fromfile=str(old), tofile=str(new), n=0, lineterm=""
    )
    return "\n".join(lines)


def count_changed(before: str, after: str) -> int:
    """Return how many lines differ; of a block of lines that was replaced, the longer side counts."""
    old, new = before.splitlines(), after.splitlines()
    changes = difflib.SequenceMatcher(a=old, b=new, autojunk=len(old) > _MANY_LINES).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in changes if tag != "equal")


def print_notes(file: TargetFile, *, notes: Iterable[str], unknown: Iterable[str]) -> None:
    """Say on stderr what was assumed of a file that was read, and name what was not understood."""
    for note in notes:
        click.echo(_("note: {note}", note=f"{file.path}: {note}"), err=True)
    for key in unknown:
        click.echo(_("note: {key} is not understood and left out", key=key), err=True)
