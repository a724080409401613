"""A process that tries inputs one after the other: ``python -m tests.fuzz.worker SEED FIRST END FOLDER``.

It writes a line of JSON for each input. An input that never ends kills it, with the place on stderr.
"""

import faulthandler
import importlib
import json
import resource
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evenflow.errors import RunError
from evenflow.profiles.layer_file import read_layer_file
from tests.fuzz import judge
from tests.fuzz.cases import make
from tests.paths import ROOT

HANG_SECONDS = 60.0
"""Processor time after which an input hangs; and ten times as much by the clock."""
MOST_ADDRESS_BYTES = 24 * 2**30


def main(seed: int, first: int, end: int, folder: Path) -> None:
    """Try inputs `first` to `end`."""
    prepare()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where it is, and ends
    for number in range(first, end):
        own = folder / "a" / "b" / "c"
        command = make(number, seed, own)
        say({"number": number, "reader": command.reader, "arguments": [repr(a)[:120] for a in command.arguments]})
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        faulthandler.dump_traceback_later(10 * HANG_SECONDS, exit=True)
        verdict = judge.run(command, own)
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        say(
            {
                "number": number,
                "status": verdict.status,
                "fault": verdict.fault,
                "detail": verdict.detail,
                "seconds": round(verdict.seconds, 3),
                "megabytes": verdict.grown_bytes >> 20,
            }
        )


def prepare() -> None:
    """Load and compile everything once, keep real training processes out, and bound the memory."""
    from evenflow.solve.order.alternate import plan_any_order
    from tests.loops import compile_loops

    compile_loops()
    tiny = read_layer_file(ROOT / "examples" / "llama2_70b.json")
    plan_any_order(tiny, num_ranks=2, num_microbatches=2, num_chunks=2, split_backward=True, time_limit_s=1)  # compiles
    if find_spec("evenflow_torch"):
        import torch

        import evenflow_torch.profile.model_profile  # noqa: F401

        torch.set_num_threads(1)
    without_processes(setattr)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def without_processes(put: Callable[[Any, str, Any], object]) -> None:
    """Let `evenflow run` refuse to start its ranks, which takes seconds and is another test's matter."""
    if not find_spec("evenflow_torch"):
        return
    run_command = importlib.import_module("evenflow_torch.verbs.run.run_command")

    def no_launch(*_: object, **__: object) -> None:
        raise RunError("no processes are started here")

    put(run_command, "launch", no_launch)


def say(fields: dict[str, object]) -> None:
    """Write one line for the parent."""
    print(json.dumps(fields), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
