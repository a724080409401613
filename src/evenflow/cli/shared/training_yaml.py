"""The user's training YAML, which is never written itself: a verb writes others beside it."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import read_text
from evenflow.model import Plan
from evenflow.targets.mindformers.training_yaml import apply_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingYaml:
    """The file of ``--apply``."""

    path: Path
    text: str
    """The whole file, with its byte order mark where it has one, so that it can be written back byte for byte."""

    @classmethod
    def read(cls, path: Path) -> "TrainingYaml":
        """Read the file; raises InputError."""
        text = read_text(path)
        has_mark = path.read_bytes().startswith(codecs.BOM_UTF8)
        return cls(path=path, text=f"\ufeff{text}" if has_mark else text)

    def beside(self, label: str, *, folder: Path | None = None) -> Path:
        """Return the name of a file made from this one: ``train.planned.yaml`` beside ``train.yaml``."""
        return (folder or self.path.parent) / f"{self.path.stem}.{label}{self.path.suffix}"

    def applied(self, plan: Plan) -> str:
        """Return the text with all that `plan` decides; raises InputError where file or framework forbid it."""
        return apply_plan(self.text, file=str(self.path), plan=plan)
