"""Commands that are told to end at random moments: their status, how long they take, and whether files are whole."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import aligned

ROOT = Path(__file__).resolve().parent.parent
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
START_SECONDS = 0.03
"""Before this time Python itself starts, in which nothing of evenflow runs."""
MOST_SECONDS = 2.0
START = "Python was still starting"

_VERB = ("-m", "evenflow")
_MODEL = str(ROOT / "examples" / "llama2_70b.json")
_SIZES = ("--ranks", "4", "--chunks", "2", "--microbatches", "8", "--memory", "56GB", "--time-limit", "30")
_FILES = ("--json", "result.json", "--svg", "result.svg")
COMMANDS = {
    "plan": ((*_VERB, "plan", _MODEL, *_SIZES, *_FILES), 6.0),
    "plan, best": ((*_VERB, "plan", _MODEL, *_SIZES, *_FILES, "--schedule", "best"), 8.0),
    "plan, search": ((*_VERB, "plan", _MODEL, *_SIZES, *_FILES, "--schedule", "search", "--split-backward"), 10.0),
    "compare": ((*_VERB, "compare", _MODEL, *_SIZES, "--json", "result.json", "--output-folder", "."), 6.0),
    "balancer": (
        (
            str(ROOT / "run_pipeline_balance.py"), "-m", "llama2_70b", "-lf", str(ROOT / "layers"), "-s", "4",
            "-i", "2", "-mb", "8", "-t", "30", "-naive", "1", "-o", ".",
        ),
        6.0,
    ),
    "simulate": (
        (*_VERB, "simulate", _MODEL, "--layers", "20,20,20,20", "--microbatches", "8", *_FILES),
        1.0,
    ),
    "auto": (
        (
            *_VERB, "auto", "--model", str(ROOT / "examples" / "configs" / "llama3_70b.json"), "--mesh", "2x4",
            "--intra-bandwidth", "200GBps", "--inter-bandwidth", "25GBps", "--memory", "80GB", "--microbatches", "16",
            *_FILES,
        ),
        40.0,
    ),
}  # fmt: skip
"""Each command, and the seconds in which a signal may come."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One command that was told to end."""

    command: str
    at_s: float
    signal: str
    status: int
    seconds: float
    """Time from the signal to the end."""
    has_answer: bool
    fault: str
    """The promise that it broke; empty for none."""


def trials(names: Sequence[str], count: int, *, seed: int = 0) -> Iterator[Trial]:
    """Run `count` trials, of the named commands in turn."""
    draw = random.Random(seed)
    for number in range(count):
        yield _trial(names[number % len(names)], draw)


def _trial(name: str, draw: random.Random) -> Trial:
    arguments, latest_s = COMMANDS[name]
    # Half of them early, where most of what can be interrupted happens in a short time.
    at_s = draw.uniform(START_SECONDS, latest_s if draw.random() < 0.5 else min(2.0, latest_s))
    number, again_s = draw.choice(list(STATUS)), draw.choice([None, 0.0, 0.02, 0.3])
    folder = Path(tempfile.mkdtemp(prefix="evenflow-trial-"))
    try:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        time.sleep(at_s)
        ended = process.poll() is not None
        told = time.monotonic()
        process.send_signal(number)
        if again_s is not None:
            time.sleep(again_s)
            process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Trial(
                command=name, at_s=at_s, signal=number.name, status=0, seconds=60, has_answer=False, fault="hangs"
            )
        seconds = time.monotonic() - told
        return Trial(
            command=name,
            at_s=at_s,
            signal=number.name,
            status=process.returncode,
            seconds=seconds,
            has_answer=bool(out),
            fault="" if ended else _fault(process.returncode, number, seconds, err, folder),
        )
    finally:
        shutil.rmtree(folder)


def _fault(status: int, number: signal.Signals, seconds: float, err: str, folder: Path) -> str:
    if "Traceback" in err and "evenflow/" not in err.replace("evenflow/__main__", ""):
        return START
    if status == -number:
        return START  # before Python hears any signal
    if "Traceback" in err or "Warning" in err:
        return f"says {err.strip().splitlines()[-1]}"
    if status not in (STATUS[number], 0, 3):  # it may have ended by itself in between
        return f"status {status}"
    if seconds > MOST_SECONDS:
        return f"takes {seconds:.1f} s"
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("."):
            return f"leaves {path.name}"
        if path.suffix == ".json":
            try:
                json.loads(text)
            except ValueError:
                return f"leaves half of {path.name}"
        elif "</svg>" not in text:
            return f"leaves half of {path.name}"
    return ""


def report(done: Sequence[Trial]) -> str:
    """Return a row for each command, and the faults."""
    rows = []
    for name in dict.fromkeys(trial.command for trial in done):
        own = [trial for trial in done if trial.command == name]
        seconds = sorted(trial.seconds for trial in own)
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(Counter(t.status for t in own).items()))
        rows.append(
            [
                name,
                str(len(own)),
                str(sum(trial.has_answer for trial in own)),
                f"{seconds[len(seconds) // 2]:.2f}",
                f"{seconds[-1]:.2f}",
                str(sum(trial.fault == START for trial in own)),
                str(sum(trial.fault not in ("", START) for trial in own)),
                statuses,
            ]
        )
    header = ["command", "trials", "with an answer", "median s", "longest s", "Python starting", "faults", "statuses"]
    faults = [f"{t.command} {t.signal} after {t.at_s:.3f} s: {t.fault}" for t in done if t.fault not in ("", START)]
    return "\n".join([aligned(header, rows), *faults])
