"""Inputs that would take gigabytes are refused by a process of its own, whose memory is measured."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.fuzz.cases import write_neighbours
from tests.paths import ROOT

pytestmark = pytest.mark.processes

MEGABYTE = 2**20
MOST_BYTES = 500 * MEGABYTE
LARGE = 40 * MEGABYTE


def _bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True):
        lines.append(f"{new}: &{new} [{', '.join(['*' + old] * 9)}]")
    return "\n".join(lines)


def _long_list() -> str:
    return "a: [" + "1, " * 300_000 + "1]"


CHECK = ("schedule", "check", "in.csv")
FIT = ("fit-memory", "in.yaml")
SIMULATE = ("simulate", "in.json", "--ranks", "2", "--microbatches", "2")
TRACE = ("read-trace", "in.json", "--layers", "2", "--microbatches", "4", "--body", "L")
PEAKS = ("collect-peaks", "in.log")
CASES: dict[str, tuple[str, Callable[[], str], tuple[str, ...], str]] = {
    "aliases of aliases": ("in.yaml", _bomb, FIT, "at most 30,000 values"),
    "a list without end": ("in.yaml", _long_list, FIT, "at most 30,000 values"),
    "a large YAML": ("in.yaml", lambda: "# x\n" * 500_000, FIT, "characters, and at most"),
    "deep brackets": ("in.yaml", lambda: "[" * 500_000, FIT, "at most 50 deep"),
    "deep blocks": ("in.yaml", lambda: "- " * 300_000, FIT, "at most 50 deep"),
    "a large order": ("in.csv", lambda: "0F0," * (LARGE // 4), CHECK, "more than 32 MB"),
    "many jobs": ("in.csv", lambda: "[" + "[]," * 5_000_000 + "[]]", CHECK, "brackets and commas, and at most"),
    "a large layer file": ("in.json", lambda: " " * LARGE, SIMULATE, "more than 32 MB"),
    "deep objects": ("in.json", lambda: '{"a":' * 300_000, SIMULATE, "nest too deep"),
    "a trace of one text": ("in.json", lambda: '[{"name": "' + "x" * LARGE, TRACE, "ends before its last bracket"),
    "a trace of brackets": ("in.json", lambda: '[{"a": ' + "[" * LARGE, TRACE, "more than 200 deep"),
    "a trace of spaces": ("in.json", lambda: "[" + " " * LARGE, TRACE, "ends before its last bracket"),
    "a log without lines": ("in.log", lambda: "x" * 2 * LARGE, PEAKS, "must have lines with"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_too_much_is_refused_within_memory(tmp_path: Path, name: str) -> None:
    file, text, arguments, message = CASES[name]
    (tmp_path / file).write_text(text())
    status, errors, most_bytes = _run(tmp_path, arguments)
    assert status == 2, errors[-1000:]
    assert message in errors
    assert len(errors) < 1000
    assert most_bytes < MOST_BYTES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ranks", "999999999999", "--microbatches", "2"), "--ranks must be an integer from 1 to 10,000"),
        (("--ranks", "2", "--microbatches", "2000000"), "must be at most 4,000,000 forwards and backwards"),
        (("--ranks", "2", "--microbatches", "2", "--memory", "9" * 400 + "GB"), "--memory must be above zero, at most"),
        (("--ranks", "2", "--microbatches", "2", "--p2p-latency", "9" * 30 + "s"), "--p2p-latency must be from 0 to"),
    ],
)
def test_numbers_that_no_arithmetic_holds(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    write_neighbours(tmp_path)
    status, errors, most_bytes = _run(tmp_path, ("simulate", "layers.json", *arguments))
    assert status == 2, errors[-1000:]
    assert message in errors
    assert most_bytes < MOST_BYTES


def test_a_long_trace_is_read_in_little_memory(tmp_path: Path) -> None:
    events = seeds.kineto()["traceEvents"]
    one = ",".join(
        '{"ph": "X", "cat": "cpu_op", "name": "aten::x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}' for _ in range(1000)
    )
    text = "[" + ",".join([one] * 300) + "," + str(events).replace("'", '"').replace("None", "null") + "]"
    (tmp_path / "in.json").write_text(text.replace(",[", ",").replace("]]", "]"))
    status, errors, most_bytes = _run(tmp_path, (*TRACE, "--head", "E", "--tail", "T"))
    assert status == 0, errors[-1000:]
    assert most_bytes < MOST_BYTES


_MEASURED = """
import resource, subprocess, sys
status = subprocess.run([sys.executable, "-m", "evenflow", *sys.argv[2:]]).returncode
with open(sys.argv[1], "w") as used:
    used.write(str(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""
"""Runs a command and writes down its most memory; started from here, the command would count what the tests hold."""


def _run(folder: Path, arguments: tuple[str, ...]) -> tuple[int, str, int]:
    """Return exit status, standard error and the most memory of a command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "EVENFLOW_LANG": "en"}
    used = folder / "used"
    command = [sys.executable, "-c", _MEASURED, str(used), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, int(used.read_text())
