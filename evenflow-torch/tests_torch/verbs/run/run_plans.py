"""A plan to run, as a file."""

from pathlib import Path
from typing import Any

from evenflow.export.results.json_text import format_object

PLAN = {
    "ranks": 2,
    "chunks": 2,
    "microbatches": 3,
    "schedule": "interleaved",
    "sequence_splits": 1,
    "layers": [[2, 1], [1, 1]],
    "recompute": {"full": [[1, 0], [0, 0]], "select": [[0, 1], [0, 0]]},
}


def written(path: Path, **changes: Any) -> Path:
    path.write_text(format_object(PLAN | changes), encoding="utf-8")
    return path
