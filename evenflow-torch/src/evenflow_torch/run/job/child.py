"""One rank as a process of its own: ``python -m evenflow_torch.run.job.child JOB``, which `launch` starts.

It answers on standard output with one JSON object a line: ``{"step": …}``, ``{"mismatch": …}``, ``{"result": …}`` or
``{"failure": …}``, and ``{"alive": true}`` every second from its first moment on.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from evenflow.errors import EvenflowError
from evenflow.language import language_of, speaking
from evenflow_torch.run.job.run_folder import remove
from evenflow_torch.run.values.run_job import RunJob
from evenflow_torch.run.values.run_result import Failure, StepReport

HEARTBEAT_SECONDS = 1.0
"""Time between two signs of life."""


def main() -> None:
    """Run the job that the first argument names, as the rank that the environment names."""
    threading.Thread(target=_end_with_parent, args=[Path(sys.argv[1]).parent], daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(kind: str, value: object) -> None:
        text = json.dumps({kind: msgspec.to_builtins(value)})  # not msgspec's, which has no NaN
        answers.write(text.encode() + b"\n")
        answers.flush()

    threading.Thread(target=_show_life, args=[answer], daemon=True).start()
    try:
        job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=RunJob)
        from evenflow_torch.run.job.worker import train

        with speaking(language_of(os.environ)):  # that of the command, which says so in the environment
            result = train(job, lambda news: answer("step" if isinstance(news, StepReport) else "mismatch", news))
        if result is not None:
            answer("result", result)
    except Exception as error:  # noqa: BLE001  whatever it is, the parent names it with its rank
        answer("failure", Failure(time_ns=time.time_ns(), message=message_of(error)))
        _leave(1)
    _leave(0)


def message_of(error: BaseException) -> str:
    """Return one line, with the type of an error that is not evenflow's own."""
    text = (str(error).strip().splitlines() or [""])[0]
    return text if isinstance(error, EvenflowError) else f"{type(error).__name__}: {text}"


def _leave(status: int) -> None:
    """End this process, which has said everything, and not through the interpreter's end.

    That would wait for threads that wait for other ranks. And it takes libraries apart while threads of theirs and of
    this module still run: C++ ends a process whose threads are taken from it, though the training went well.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _show_life(answer: Callable[[str, object], None]) -> None:
    """Give signs of life until the process ends, whatever it computes."""
    with suppress(OSError, ValueError):  # nobody reads them any more
        while True:
            answer("alive", True)
            time.sleep(HEARTBEAT_SECONDS)


def _end_with_parent(folder: Path) -> None:
    """End this process when standard input ends: a pipe from the parent, which ends however the parent does.

    A parent that was killed has not removed its `folder`, so each rank does.
    """
    os.read(0, 1)  # not sys.stdin, whose lock the interpreter wants at its end
    remove(folder)
    os._exit(1)


if __name__ == "__main__":
    main()
