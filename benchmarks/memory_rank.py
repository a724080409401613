"""One rank of the memory part of the fidelity benchmark: real layers, live bytes counted in a step.

Started by `fidelity`: torchrun … -m benchmarks.memory_rank FILE
"""

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.model import Plan
from evenflow.schedule import FAMILIES
from evenflow_torch.run import pipeline
from evenflow_torch.run.measure.calibrate import calibrate
from evenflow_torch.run.measure.comparison import compare
from evenflow_torch.run.measure.live_memory import memory_meter
from evenflow_torch.run.measure.recorder import Recorder
from evenflow_torch.run.values.run_result import RunResult

WIDTH, LENGTH, MICROBATCHES = 128, 64, 8
LAYERS = (3, 2, 3, 2)
FULL = (1, 0, 2, 0)
"""The layers that recompute, in the second half of the cases."""
SCHEDULES = ("f-then-b", "1f1b", "zb-h1", "interleaved", "zbv")


def main() -> None:
    dist.init_process_group("gloo")
    logging.getLogger("torch.distributed.pipelining.schedules").setLevel(logging.CRITICAL)
    found = []
    for name in SCHEDULES:
        for full in ((0,) * len(LAYERS), FULL):
            chunks = FAMILIES[name].num_chunks or FAMILIES[name].fewest_chunks
            plan = Plan(
                schedule=name,
                num_microbatches=MICROBATCHES,
                layers=(LAYERS,) * chunks,
                recompute={"full": (full,) * chunks},
            )
            peaks = _peaks(plan)
            if peaks:
                found.append({"schedule": name, "recomputes": any(full), "predicted": peaks[0], "measured": peaks[1]})
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _peaks(plan: Plan) -> tuple[list[int], list[int]] | None:
    """Return the predicted and measured peak bytes of every rank, on rank 0."""
    batch = (torch.randn(2 * plan.num_microbatches, LENGTH, WIDTH),) * 2
    recorder = Recorder(torch.device("cpu"))
    pipe = pipeline(plan, [_Layer() for _ in range(plan.num_layers)], _loss, batch)
    pipe.observe(recorder)
    calibration = calibrate(pipe, batch, _loss)
    pipe.step(batch)  # makes the gradients
    parameters = list(pipe.parameters())
    gradients = [one.grad for one in parameters if one.grad is not None]
    static = sum(one.nbytes for one in (*parameters, *gradients))
    with memory_meter(torch.device("cpu"), [*parameters, *gradients, *batch]) as meter:
        start = meter.live_bytes
        recorder.start_step()
        pipe.step(batch)
        peak = meter.peak_bytes - start + static
    own = calibration.rank_result()
    own = replace(own, static_bytes=static + own.static_bytes, peak_bytes=peak, actions=[recorder.rows()])
    gathered: list[Any] | None = [None] * plan.num_ranks if dist.get_rank() == 0 else None
    dist.gather_object(own, gathered)
    if gathered is None:
        return None
    result = RunResult(
        model="", num_parameters=0, losses=[], message_ns=calibration.message_ns, overhead=calibration.overhead,
        ranks=gathered, verification=None,
    )  # fmt: skip
    comparison = compare(pipe.schedule, result)
    return list(comparison.predicted_peak_bytes), list(comparison.measured_peak_bytes)


class _Layer(nn.Module):
    """A feed-forward block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))
        return output


def _loss(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


if __name__ == "__main__":
    main()
