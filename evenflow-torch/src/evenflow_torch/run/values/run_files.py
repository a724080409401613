"""Files that a training reads and writes beside its plan and model; its checkpoints. Imports no torch."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CHECKPOINT = re.compile(r"step-([0-9]+)")
_METADATA = ".metadata"
"""What torch writes last: a checkpoint without it was never finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Where data come from, and where checkpoints lie."""

    data: tuple[str, ...] = ()
    """Files or import paths; empty: sequences that count up."""
    tokenizer: str | None = None
    eval_data: tuple[str, ...] = ()
    eval_every: int | None = None
    """Steps between two evaluations; None: there are none."""
    save: str | None = None
    """Folder of the checkpoints; None: there are none."""
    save_every: int | None = None
    """Steps between two checkpoints; None: one at the end."""
    resume: str | None = None
    """The checkpoint that the training goes on from; None: from its beginning."""
    first_step: int = 0
    """Steps that the checkpoint has behind it."""
    shows_metrics: bool = False
    """Whether every step is reported with its rates and the memory of the ranks."""

    profile: str | None = None
    """Folder of the traces of a step behind the training; None: there is none."""

    def checkpoint_after(self, steps: int, num_steps: int) -> Path | None:
        """Return the folder of the checkpoint that is due after so many steps of `num_steps`; None where none is."""
        is_due = steps == num_steps or (self.save_every is not None and steps % self.save_every == 0)
        return Path(self.save) / f"step-{steps:08}" if self.save is not None and is_due else None

    def is_evaluated(self, steps: int) -> bool:
        """Whether the model is evaluated after so many steps."""
        return self.eval_every is not None and steps % self.eval_every == 0


def checkpoints_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the finished checkpoints of a folder with their numbers of steps, or the one that it is itself."""
    for path in (folder, *(folder.iterdir() if folder.is_dir() else ())):
        match = _CHECKPOINT.fullmatch(path.name)
        if match and (path / _METADATA).exists():
            yield int(match[1]), path


def last_checkpoint(folder: Path, *, most_steps: int) -> tuple[int, Path] | None:
    """Return the last checkpoint of a folder with at most so many steps behind it; None where there is none."""
    return max((found for found in checkpoints_in(folder) if found[0] <= most_steps), default=None)
