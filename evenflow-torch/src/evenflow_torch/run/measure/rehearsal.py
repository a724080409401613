"""Steps before the training that leave nothing behind: between which times the steps of the training will be.

Of ten times that scatter alike, any is as likely as any other to be the shortest or the longest. So the next step is
between the shortest and the longest of nine with a probability of 8 in 10, whatever makes them scatter: stages,
messages, or other programs on the machine.
"""

from collections.abc import Callable
from time import monotonic

import torch
import torch.distributed as dist

from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.measure.recorder import Recorder
from evenflow_torch.run.values.run_job import WARM_UP_STEPS

REHEARSALS = 9
_MOST_SECONDS = 30.0
"""After this there are no further ones, and those before say nothing."""


def rehearse(pipe: Pipeline, recorder: Recorder, run: Callable[[], object], device: torch.device) -> tuple[int, ...]:
    """Run steps; return how long they took from the first start of an action to the last end, ns; every rank calls it.

    Gradients are dropped, buffers and the number of steps are as before. None are returned where they take too long.
    """
    buffers = [(buffer, buffer.clone()) for stage in pipe.stages for buffer in stage.submod.buffers()]
    before, start_s, lengths = pipe.num_steps, monotonic(), []
    for number in range(WARM_UP_STEPS + REHEARSALS):
        dist.barrier()
        recorder.start_step()
        run()
        rows = recorder.rows()
        begin, end = min(row[3] for row in rows), max(row[4] for row in rows)
        told = torch.tensor([-begin, end, int(1e9 * (monotonic() - start_s))], dtype=torch.int64, device=device)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        first, last, passed_ns = told.tolist()
        if number >= WARM_UP_STEPS:
            lengths.append(last + first)
        if passed_ns > _MOST_SECONDS * 1e9:
            break
    for parameter in pipe.parameters():
        parameter.grad = None
    for buffer, value in buffers:
        buffer.copy_(value)
    pipe.num_steps = before
    return tuple(lengths) if len(lengths) == REHEARSALS else ()
