"""No test and no input of the fuzzer spends its time on compiling: `compile_loops` leaves no loop that others call."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import importlib, json, sys
from tests.fuzz.worker import prepare
prepare()
loops = [(module, name, getattr(importlib.import_module(module), name)) for module, name in json.loads(sys.argv[1])]
print([f"{module}.{name}" for module, name, loop in loops if getattr(loop, "signatures", True) == []])
"""


def imported_loops() -> list[tuple[str, str]]:
    """What modules of Python take from modules of loops."""
    return sorted(
        {
            (node.module, alias.name)
            for path in (ROOT / "src").rglob("*.py")
            if "kernel" not in path.stem
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module and "kernel" in node.module.rpartition(".")[2]
            for alias in node.names
        }
    )


@pytest.mark.processes
def test_every_loop_is_compiled_before_time_counts() -> None:
    loops = imported_loops()
    assert len(loops) > 5
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(loops)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr[-1000:]
