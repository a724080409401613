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
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.paths import ROOT

BATCH = 2000
"""Inputs of one worker, which then starts again with a fresh memory."""


def main() -> int:
    """Try the inputs and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--log", type=Path, help="write every fault here as a line of JSON")
    parser.add_argument("--verbose", action="store_true", help="print every input")
    asked = parser.parse_args()
    started = time.monotonic()
    counts: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    slowest, largest = (0.0, ""), (0, "")
    number, end = asked.first, asked.first + asked.inputs
    while number < end:
        for result in _batch(asked.seed, number, min(number + BATCH, end)):
            number = result["number"] + 1
            counts["inputs"] += 1
            counts[result["fault"] or "clear"] += 1
            statuses[str(result["status"])] += 1
            slowest = max(slowest, (result["seconds"], result["what"]))
            largest = max(largest, (result["megabytes"], result["what"]))
            if asked.verbose:
                print(result["number"], result["status"], f"{result['seconds']:.2f}", result["what"], flush=True)
            if result["fault"]:
                print(f"{result['fault']}: {result['what']}\n{result['detail'][-1500:]}\n", flush=True)
                if asked.log:
                    with asked.log.open("a") as log:
                        log.write(json.dumps(result) + "\n")
        print(_sentence(counts, asked.seed, time.monotonic() - started), file=sys.stderr, flush=True)
    print(_sentence(counts, asked.seed, time.monotonic() - started))
    print("exit statuses: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    print(f"slowest {slowest[0]:.1f} s ({slowest[1]}), most memory {largest[0]} MB ({largest[1]})")
    return 0 if counts["inputs"] == counts["clear"] else 1


def _sentence(counts: Counter[str], seed: int, seconds: float) -> str:
    others = counts["inputs"] - counts["clear"] - counts["traceback"] - counts["hang"]
    return (
        f"{counts['inputs']:,} inputs (seed {seed}, {seconds:.0f} s): {counts['traceback']} tracebacks, "
        f"{counts['hang']} hangs, {others} other faults"
    )


def _batch(seed: int, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the results of one worker; the last one is a hang or a crash where the worker did not get to its end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
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
