"""Small traces written by hand, and the message of a refusal."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from evenflow.errors import InputError
from evenflow.profiles.traces import read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.builders import Case


def case(**changes: Any) -> Case:
    settings = {
        "layers": ["4-LLamaDecodeLayer", "5-LLamaDecodeLayer"], "head": [], "tail": [],
        "num_microbatches": 2, "num_steps": 3, "warm_up": 1, "durations": Random(1),
    }  # fmt: skip
    return Case(**(settings | changes))


def row(name: str, start_us: int, duration_us: int, tid: int = 7) -> dict[str, Any]:
    return {"name": name, "pid": 3, "tid": tid, "ts": f"{start_us}.000", "dur": duration_us, "ph": "X"}


SCOPE_PROCESS = {"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "Scope Layer"}}


def forwards(*rows: dict[str, Any], path: Path) -> Path:
    """A trace whose rows are all within one forward window."""
    return builders.write(path, [row("Default", 0, 10**9, tid=0), *rows, SCOPE_PROCESS])


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(InputError) as refused:
        read_traces(folder, **({"num_microbatches": 1} | options))
    return str(refused.value)
