"""Real ranks, of which one fails in a step as a file says: by an error, or by a signal to itself."""

import json
import os
from itertools import count
from pathlib import Path
from typing import Any

from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.job import child
from evenflow_torch.run.measure.rehearsal import REHEARSALS
from evenflow_torch.run.values.run_job import WARM_UP_STEPS

STEP = 2
"""Of the training, in which it fails, when the ranks have exchanged many messages."""


def main() -> None:
    fault = json.loads(os.environ["FAULTY_RANKS"])
    with Path(fault["pids"]).open("a", encoding="utf-8") as pids:
        pids.write(f"{os.getpid()}\n")
    step, calls = Pipeline.step, count()

    def fail(pipe: Pipeline, batch: Any) -> Any:
        if next(calls) == WARM_UP_STEPS + REHEARSALS + STEP and os.environ["RANK"] == fault.get("rank"):
            if "signal" in fault:
                os.kill(os.getpid(), fault["signal"])
            raise ValueError("the disk is full")
        return step(pipe, batch)

    Pipeline.step = fail
    child.main()


if __name__ == "__main__":
    main()
