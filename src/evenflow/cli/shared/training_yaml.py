"""The user's training YAML, from which a verb writes others beside it."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from evenflow.cli.shared.output_files import write_text
from evenflow.export.train_yaml import apply_plan
from evenflow.fields import read_text
from evenflow.model import Plan


def read_training_yaml(path: Path) -> str:
    """The whole text, with its byte order mark where it has one, so that it can be written back byte for byte."""
    text = read_text(path)
    return f"\ufeff{text}" if path.read_bytes().startswith(codecs.BOM_UTF8) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingYaml:
    """The file of ``--apply`` of ``evenflow plan``; it is never written itself."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> "TrainingYaml":
        """From the file; raises InputError."""
        return cls(path=path, text=read_training_yaml(path))

    @property
    def target(self) -> Path:
        """Where the text with a plan goes: ``train.planned.yaml`` beside ``train.yaml``."""
        return self.path.with_name(f"{self.path.stem}.planned{self.path.suffix}")

    def applied(self, plan: Plan) -> str:
        """The text with all that `plan` decides; raises InputError where file or framework do not allow it."""
        return apply_plan(self.text, file=str(self.path), plan=plan)

    def write(self, plan: Plan) -> Path:
        """Write `target`, and return it."""
        write_text(self.target, self.applied(plan), option="--apply")
        return self.target
