"""One rank of the fidelity benchmark, started by `fidelity`: torchrun … -m benchmarks.fidelity_rank FILE STAGE_MS…"""

import json
import logging
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.sleeping import SleepingLayer, leave_weights_for_later
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import FAMILIES, schedule_of
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.measure.calibrate import calibrate
from evenflow_torch.run.measure.comparison import Comparison, compare
from evenflow_torch.run.measure.recorder import Recorder, clock_offset_ns
from evenflow_torch.run.values.run_result import ActionRow, RunResult

WIDTH = 16_384
"""How many numbers a boundary tensor has: 64 KB."""
MICROBATCHES = {4: 5, 8: 8}
SLOW_MS = 50.0
ROUNDS = 3
NS_PER_MS = 1_000_000
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """One measured case, with times in ms."""

    schedule: str
    num_ranks: int
    num_microbatches: int
    stage_ms: float
    """The shortest forward of a stage."""
    predicted_ms: float
    measured_ms: float
    """The shortest measured step: other work on the machine only makes steps longer."""
    longest_ms: float
    message_ms: float
    action_ms: float
    send_ms: float
    receive_ms: float
    """Measured overheads of the runtime."""

    @property
    def error(self) -> float:
        """The predicted step over the measured one, minus one."""
        return self.predicted_ms / self.measured_ms - 1


def main() -> None:
    dist.init_process_group("gloo")
    logging.getLogger("torch.distributed.pipelining.schedules").setLevel(logging.CRITICAL)
    recorder = Recorder(CPU, clock_offset_ns=clock_offset_ns(CPU))
    num_ranks = dist.get_world_size()
    found = []
    for stage_ms in map(float, sys.argv[2:]):
        for name, family in FAMILIES.items():
            chunks = family.num_chunks or family.fewest_chunks
            plan = Plan(schedule=name, num_microbatches=MICROBATCHES[num_ranks], layers=((1,) * num_ranks,) * chunks)
            try:
                schedule_of(plan)
            except InputError:  # not for these sizes
                continue
            case = _measure(plan, stage_ms, recorder)
            if case is not None:
                found.append(asdict(case))
                print(json.dumps(found[-1]), flush=True)
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _measure(plan: Plan, stage_ms: float, recorder: Recorder) -> Fidelity | None:
    """Calibrate, run some steps and compare, several times; return the round with the median error on rank 0."""
    batch = (torch.zeros(plan.num_microbatches, WIDTH),) * 2
    model = [_layer(stage_ms, index) for index in range(plan.num_layers)]
    pipe = pipeline(plan, model, _loss, batch)
    pipe.observe(recorder)
    for stage in pipe.stages:
        leave_weights_for_later(stage)
    _step(pipe, batch, recorder, is_awake=True)
    rounds = [_round(plan, stage_ms, pipe, recorder) for _ in range(ROUNDS)]
    found = sorted((one for one in rounds if one is not None), key=lambda one: one.error)
    return found[len(found) // 2] if found else None


def _round(plan: Plan, stage_ms: float, pipe: Pipeline, recorder: Recorder) -> Fidelity | None:
    batch = (torch.zeros(plan.num_microbatches, WIDTH),) * 2
    for stage in pipe.stages:
        for part in stage.submod.parts:
            part.module.is_awake = False
    calibration = calibrate(pipe, batch, _loss)
    steps = [_step(pipe, batch, recorder, is_awake=False) for _ in range(2 if stage_ms >= SLOW_MS else 3)]
    own = replace(calibration.rank_result(), static_bytes=0, actions=steps)
    gathered: list[Any] | None = [None] * plan.num_ranks if dist.get_rank() == 0 else None
    dist.gather_object(own, gathered)
    if gathered is None:
        return None
    result = RunResult(
        model="sleeping layers",
        num_parameters=plan.num_layers,
        losses=[],
        message_ns=calibration.message_ns,
        overhead=calibration.overhead,
        ranks=gathered,
        verification=None,
    )
    return _case(plan, stage_ms, compare(pipe.schedule, result), result)


def _case(plan: Plan, stage_ms: float, comparison: Comparison, result: RunResult) -> Fidelity:
    return Fidelity(
        schedule=plan.schedule,
        num_ranks=plan.num_ranks,
        num_microbatches=plan.num_microbatches,
        stage_ms=stage_ms,
        predicted_ms=comparison.predicted.makespan_ns / NS_PER_MS,
        measured_ms=min(comparison.step_ns) / NS_PER_MS,
        longest_ms=max(comparison.step_ns) / NS_PER_MS,
        message_ms=result.message_ns / NS_PER_MS,
        action_ms=result.overhead.action_ns / NS_PER_MS,
        send_ms=result.overhead.send_ns / NS_PER_MS,
        receive_ms=result.overhead.receive_ns / NS_PER_MS,
    )


def _step(pipe: Pipeline, batch: tuple[Tensor, Tensor], recorder: Recorder, *, is_awake: bool) -> list[ActionRow]:
    """Run a step in which all ranks begin together, as in the simulation."""
    for stage in pipe.stages:
        for part in stage.submod.parts:
            part.module.is_awake = is_awake
    dist.barrier()
    recorder.start_step()
    pipe.step(batch)
    return recorder.rows()


def _layer(stage_ms: float, index: int) -> SleepingLayer:
    """Make a layer of uneven time: up to 30 % longer, by its place."""
    forward_ns = round(stage_ms * NS_PER_MS * (1 + index * 3 % 4 / 10))
    return SleepingLayer(forward_ns=forward_ns, input_ns=forward_ns, weight_ns=forward_ns // 2)


def _loss(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).mean()


if __name__ == "__main__":
    main()
