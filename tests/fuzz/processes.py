"""Inputs that need a process of their own: training that is really launched, signals, a disk that is full.

``python -m tests.fuzz --launched 50`` tries them; each is made from the seed and its number.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random

from evenflow.interruption import TERMINATED
from tests.fuzz.cases import Command, odd_value, options_of, write_neighbours
from tests.fuzz.judge import STATUSES, Files, acting
from tests.paths import ROOT

MOST_CPU_SECONDS = 120
"""Processor time of a command and of all that it starts."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RESULTS = ("--json", "out.json", "--svg", "out.svg", "--html", "out.html", "--trace", "out.trace.json")
_SEARCH = ("plan", "layers.json", "--ranks", "2", "--microbatches", "64", "--schedule", "best", "--time-limit", "3")
_WRITERS: tuple[tuple[str, ...], ...] = (
    ("simulate", "layers.json", "--ranks", "2", "--microbatches", "4", *_RESULTS),
    ("schedule", "show", "zbv", "--ranks", "3", "--microbatches", "5", *_RESULTS),
    ("apply", "whole.json", "train.sh", "--to", "megatron", "--in-place"),
    ("apply", "whole.json", "train.yaml", "--to", "mindformers", "--in-place"),
)
_TRAINING = ("run", "plan.json", "--model", "llama-tiny", "--steps", "2")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended, and what is wrong with that; empty for nothing."""

    command: Command
    status: int
    fault: str = ""
    detail: str = ""


def try_launched(number: int, seed: int, folder: Path) -> Ending:
    """Run input `number` of the sequence that `seed` begins in `folder`."""
    random = Random(f"launched {seed} {number}")
    write_neighbours(folder)
    kinds: list[Callable[[Random, Path], Ending]] = [stopped, on_a_full_disk]
    if find_spec("evenflow_torch"):
        kinds.append(trained)
    return kinds[number % len(kinds)](random, folder)


def trained(random: Random, folder: Path) -> Ending:
    """Launch a training with an odd option."""
    names, takes_value, words = random.choice(options_of("run"))
    odd = (names[0], odd_value(random, words)) if takes_value else names[:1]
    return _judged(Command("training", (*_TRAINING, *odd)), folder)


def stopped(random: Random, folder: Path) -> Ending:
    """Send a signal to a search at any moment."""
    number, after_s = random.choice(SIGNALS), random.uniform(0.05, 4)
    return _judged(
        Command(f"{number.name} after {after_s:.2f} s", (*_SEARCH, *_RESULTS)), folder, send=(number, after_s)
    )


def on_a_full_disk(random: Random, folder: Path) -> Ending:
    """Write where only so many bytes of a file fit."""
    most = random.choice((0, 1, 100, 1000, 5000, 20_000))
    return _judged(Command(f"files of {most} bytes", random.choice(_WRITERS)), folder, most_bytes=most)


def _judged(
    command: Command, folder: Path, *, send: tuple[signal.Signals, float] | None = None, most_bytes: int | None = None
) -> Ending:
    files = Files.of(folder)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    houses = [str(ROOT / "src"), str(ROOT / "evenflow-torch" / "src")]
    with subprocess.Popen(
        [sys.executable, "-m", "evenflow", *command.arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(houses),
            "EVENFLOW_LANG": "en",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit,  # noqa: PLW1509 - this process has no other threads that hold locks
        start_new_session=True,
    ) as process:
        if send is not None:
            time.sleep(send[1])
            process.send_signal(send[0])
        output, errors = (said.decode("utf-8", "replace") for said in process.communicate())
    status = process.returncode
    early = send is not None and status == -send[0]  # before evenflow listens, the system's own end
    fault, detail = "", ""
    if status not in (STATUSES if send is None else {*STATUSES, TERMINATED}) and not early:
        fault, detail = "status", f"{status}: {errors[-1000:]}"
    elif "Traceback" in errors and not early:
        fault, detail = "traceback", errors[-3000:]
    elif said := acting(output) or acting(errors):
        fault, detail = "terminal", said
    elif wrong := files.wrong_after(command, None if most_bytes is not None else status):
        fault, detail = wrong
    return Ending(command, status, fault, detail)
