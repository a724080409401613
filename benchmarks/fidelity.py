"""Predicted against measured steps: every schedule on real processes, with layers that sleep for a set time.

Predictions come from the simulator, with what `evenflow_torch.run.measure.calibrate` measures beforehand, as in
`evenflow run`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import aligned

TABLES = Path(__file__).parent.parent / "docs" / "tables"
RANKS = (4, 8)
STAGE_MS = (10.0, 50.0)


def measure(ranks: Sequence[int] = RANKS, stage_ms: Sequence[float] = STAGE_MS) -> list[dict[str, Any]]:
    """Measure all cases: the fields of `benchmarks.fidelity_rank.Fidelity`, and its error."""
    cases = [case for count in ranks for case in _start("benchmarks.fidelity_rank", count, *map(str, stage_ms))]
    return [case | {"error": case["predicted_ms"] / case["measured_ms"] - 1} for case in cases]


def measure_memory() -> list[dict[str, Any]]:
    """Measure the peak bytes of every rank beside the predicted ones; see `benchmarks.memory_rank`."""
    return _start("benchmarks.memory_rank", 4)


def _start(module: str, num_ranks: int, *arguments: str) -> list[dict[str, Any]]:
    """Run the ranks of a benchmark and return the JSON that they write."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(num_ranks), "-m", module, str(file)]
        subprocess.run([*command, *arguments], check=True)
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def memory_report(cases: Sequence[dict[str, Any]]) -> str:
    """Return the table of peaks by rank in KB, with the largest error of a rank in %."""
    rows = []
    for case in cases:
        pairs = list(zip(case["predicted"], case["measured"], strict=True))
        worst = max((predicted / measured - 1 for predicted, measured in pairs), key=abs)
        cells = [f"{predicted / 1024:,.0f} / {measured / 1024:,.0f}" for predicted, measured in pairs]
        rows.append([case["schedule"] + (", recomputes" if case["recomputes"] else ""), *cells, f"{100 * worst:+.1f}"])
    return aligned(["predicted / measured KB", *(f"rank {rank}" for rank in range(4)), "largest error %"], rows)


def report(cases: Sequence[dict[str, Any]]) -> str:
    """Return the table of errors in %, with a row for each schedule."""
    columns = sorted({(case["num_ranks"], case["stage_ms"]) for case in cases})
    errors = {(case["schedule"], case["num_ranks"], case["stage_ms"]): case["error"] for case in cases}
    names = list(dict.fromkeys(case["schedule"] for case in cases))
    rows = [
        [name, *(f"{100 * errors[name, *column]:+.1f}" if (name, *column) in errors else "-" for column in columns)]
        for name in names
    ]
    worst = [
        "largest",
        *(f"{100 * max(abs(errors.get((name, *column), 0)) for name in names):.1f}" for column in columns),
    ]
    head = ["error %", *(f"{ranks} x {stage_ms:g} ms" for ranks, stage_ms in columns)]
    return aligned(head, [*rows, worst])


def details(cases: Sequence[dict[str, Any]]) -> str:
    """Return a table of every case with its steps and its calibration."""
    header = ["schedule", "ranks", "stage ms", "predicted ms", "measured ms", "longest ms", "error %"]
    header += ["message ms", "action ms", "send ms", "receive ms"]
    rows = [
        [
            case["schedule"],
            str(case["num_ranks"]),
            f"{case['stage_ms']:g}",
            *(f"{case[name]:,.1f}" for name in ("predicted_ms", "measured_ms", "longest_ms")),
            f"{100 * case['error']:+.2f}",
            *(f"{case[name]:.3f}" for name in ("message_ms", "action_ms", "send_ms", "receive_ms")),
        ]
        for case in cases
    ]
    return aligned(header, rows)


def write(name: str, text: str) -> None:
    """Write a table into docs/tables, as a text that the pages link."""
    (TABLES / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
