"""Metrics of steps as they come: lines of JSON, and TensorBoard where it is installed."""

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evenflow.errors import FileError, InputError
from evenflow.language import _
from evenflow.units import megabytes, milliseconds
from evenflow_torch.run.values.run_result import StepReport


class MetricsFiles:
    """Writes what is asked for; goes on with a file that is there where `goes_on`."""

    def __init__(self, lines: Path | None, board: Path | None, *, goes_on: bool) -> None:
        """Raises InputError where the file of lines is there already, or TensorBoard is not installed."""
        self._lines, self._board = lines, board
        self._writer: Any = None
        if lines is not None and lines.exists() and not goes_on:
            raise InputError(
                value=str(lines),
                rule=_("must not exist, but where a training goes on (--resume, --overwrite)"),
                place="--metrics",
            )
        if board is not None and find_spec("tensorboard") is None:
            raise InputError(
                value=str(board),
                rule=_("must be left out where TensorBoard is not installed"),
                place="--tensorboard",
                remedy=_("pip install tensorboard, or use --metrics FILE.jsonl"),
            )

    def write(self, step: StepReport) -> None:
        """Write the metrics of a step."""
        values = metrics_of(step)
        if self._lines is not None:
            try:
                self._lines.parent.mkdir(parents=True, exist_ok=True)
                with self._lines.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"step": step.step + 1, "time": round(time.time(), 3), **values}) + "\n")
            except OSError as error:
                raise FileError.from_os(self._lines, error, action="write") from None
        if self._board is not None:
            self._writer = self._writer or _writer_into(self._board)
            for name, value in values.items():
                self._writer.add_scalar(name, value, step.step + 1)
            self._writer.flush()


def metrics_of(step: StepReport) -> dict[str, float]:
    """Return the metrics of a step that are known, by name."""
    values: dict[str, float | None] = {
        "loss": step.loss,
        "eval_loss": step.eval_loss,
        "step_ms": milliseconds(step.step_ns),
        "tokens_per_s": step.tokens_per_s,
        "mfu": step.peak_share,
        "memory_mb": None if step.memory_bytes is None else megabytes(step.memory_bytes),
    }
    return {name: value for name, value in values.items() if value is not None}


def _writer_into(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
