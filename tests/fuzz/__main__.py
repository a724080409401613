"""The long run: ``python -m tests.fuzz --inputs 20000 --seed 1``.

Every input is made from the seed and its number, so that ``--first N --inputs 1`` repeats one. The answer is the number
of inputs, of tracebacks, of other faults and of hangs; exit status 1 where there is any.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz.processes import try_launched
from tests.paths import ROOT

BATCH = 1000
"""Inputs of one worker, which then starts again with a fresh memory."""


class Tally:
    """What was found so far; workers report to it in turn."""

    def __init__(self, seed: int, *, log: Path | None, verbose: bool) -> None:
        self._seed, self._log, self._verbose = seed, log, verbose
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.slowest, self.largest = (0.0, ""), (0, "")

    def add(self, result: dict[str, Any]) -> None:
        """Count one input, and print its fault."""
        with self._lock:
            self.counts["inputs"] += 1
            self.counts[result["fault"] or "clear"] += 1
            self.statuses[str(result["status"])] += 1
            self.slowest = max(self.slowest, (result["seconds"], result["what"]))
            self.largest = max(self.largest, (result["megabytes"], result["what"]))
            if self._verbose:
                print(result["number"], result["status"], f"{result['seconds']:.2f}", result["what"], flush=True)
            if result["fault"]:
                print(f"{result['fault']}: {result['what']}\n{result['detail'][-1500:]}\n", flush=True)
                if self._log:
                    with self._log.open("a") as log:
                        log.write(json.dumps(result) + "\n")
            if self.counts["inputs"] % BATCH == 0:
                print(self.sentence(), file=sys.stderr, flush=True)

    def sentence(self) -> str:
        """Return the numbers of inputs, tracebacks, hangs and other faults."""
        counts = self.counts
        others = counts["inputs"] - counts["clear"] - counts["traceback"] - counts["hang"]
        return (
            f"{counts['inputs']:,} inputs (seed {self._seed}, {time.monotonic() - self._started:.0f} s): "
            f"{counts['traceback']} tracebacks, {counts['hang']} hangs, {others} other faults"
        )


def main() -> int:
    """Try the inputs and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path, help="write every fault here as a line of JSON")
    parser.add_argument("--launched", type=int, default=30, help="inputs with a process of their own")
    parser.add_argument("--verbose", action="store_true", help="print every input")
    asked = parser.parse_args()
    tally = Tally(asked.seed, log=asked.log, verbose=asked.verbose)
    end = asked.first + asked.inputs

    def try_batch(first: int) -> None:
        number, last = first, min(first + BATCH, end)
        while number < last:
            for result in _results(asked.seed, number, last):
                number = result["number"] + 1
                tally.add(result)

    with ThreadPoolExecutor(asked.processes) as pool:
        list(pool.map(try_batch, range(asked.first, end, BATCH)))
    try_launched_inputs(tally, asked.seed, asked.launched)
    print(tally.sentence())
    print("exit statuses: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(tally.statuses.items())))
    (seconds, slow), (size, large) = tally.slowest, tally.largest
    print(f"most processor time {seconds:.1f} s ({slow}), most memory {size} MB ({large})")
    return 0 if tally.counts["inputs"] == tally.counts["clear"] else 1


def try_launched_inputs(tally: Tally, seed: int, count: int) -> None:
    """Try the inputs that need a process of their own, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            ending = try_launched(number, seed, Path(folder) / "a" / "b")
            what = f"launched {number} of seed {seed}, {ending.command.reader}: {' '.join(ending.command.arguments)}"
            tally.add(
                {
                    "number": number, "status": ending.status, "fault": ending.fault, "detail": ending.detail,
                    "seconds": 0.0, "megabytes": 0, "what": what,
                }
            )  # fmt: skip


def _results(seed: int, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the results of one worker; the last one is a hang or a crash where the worker did not get to its end."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "evenflow-torch" / "src"), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "tests.fuzz.worker", str(seed), str(first), str(end), folder]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=environment,
            text=True,
            cwd=ROOT,
        ) as worker:
            assert worker.stdout is not None
            doing: dict[str, Any] = {}
            following = first
            for line in worker.stdout:
                if not line.startswith("{"):
                    continue
                fields = json.loads(line)
                if "reader" in fields:
                    doing = fields
                    continue
                fields["what"] = _what(doing, seed)
                yield fields
                doing, following = {}, fields["number"] + 1
        if doing or worker.returncode:
            errors.seek(0)
            last = errors.read()[-3000:]
            fault = "hang" if "Timeout (" in last or worker.returncode == -signal.SIGPROF else "crash"
            yield {
                "number": doing.get("number", following), "status": worker.returncode, "fault": fault, "detail": last,
                "seconds": 0.0, "megabytes": 0, "what": _what(doing, seed),
            }  # fmt: skip


def _what(doing: dict[str, Any], seed: int) -> str:
    arguments = " ".join(map(str, doing.get("arguments", ())))
    return f"input {doing.get('number')} of seed {seed}, {doing.get('reader')}: {arguments}"


if __name__ == "__main__":
    sys.exit(main())
