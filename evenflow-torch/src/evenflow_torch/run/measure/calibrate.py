"""Costs of this rank's actions here and now: short measurements before the training, nothing fitted afterwards.

durations   each stage alone, on tensors of the right shapes, all ranks at the same time; medians
messages    a boundary tensor to the neighbour and back, one pair of ranks after the other; half of the median
overhead    what the runtime needs beside that: see `evenflow_torch.run.measure.overhead`
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow_torch.run.assembly.pipeline import Batch, Pipeline
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.measure.live_memory import memory_meter
from evenflow_torch.run.measure.overhead import measure_overhead
from evenflow_torch.run.measure.recorder import synchronize
from evenflow_torch.run.mesh.exchange_times import measure_exchanges_ns
from evenflow_torch.run.mesh.mesh_stage import MeshStage
from evenflow_torch.run.values.run_result import Overhead, RankResult

_REPEATS = 7
_MESSAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMeasurement:
    """Costs of one stage for one microbatch."""

    stage: int
    forward_ns: int
    backward_ns: int
    """Whole backward, recomputation and weight gradients included."""
    weight_ns: int
    """Part of the backward that a split leaves for later; zero where no backward is split."""
    activation_bytes: int
    """Live after the forward."""
    until_weight_bytes: int
    """Live between input and weight gradient."""
    working_bytes: int
    """Most memory that an action needs for itself, beyond what lives before or after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """Measurements of this rank for the prediction."""

    stages: tuple[StageMeasurement, ...]
    message_ns: int
    """Time of a message; the same on all ranks."""
    overhead: Overhead
    """Time of the runtime; the same on all ranks."""
    message_bytes: int
    """Messages on the way at a time: an input and a gradient for every stage whose input is from another rank."""

    @property
    def working_bytes(self) -> int:
        """Memory that the rank's largest action needs for itself."""
        return max(stage.working_bytes for stage in self.stages)

    def by_stage(self, name: str) -> dict[int, int]:
        """Return the numbers called `name` in `StageMeasurement`, by stage."""
        return {stage.stage: getattr(stage, name) for stage in self.stages}

    def rank_result(self) -> RankResult:
        """Return the result of a rank that has not trained yet."""
        return RankResult(
            forward_ns=self.by_stage("forward_ns"),
            backward_ns=self.by_stage("backward_ns"),
            weight_ns=self.by_stage("weight_ns"),
            activation_bytes=self.by_stage("activation_bytes"),
            until_weight_bytes=self.by_stage("until_weight_bytes"),
            static_bytes=self.message_bytes,
            working_bytes=self.working_bytes,
            peak_bytes=0,
            actions=[],
        )


def calibrate(pipe: Pipeline, batch: Batch, loss_fn: LossFunction) -> MeasuredCosts:
    """Measure this rank's stages and the messages between all ranks; every rank calls it. No gradients are left."""
    device = pipe.stages[0].device
    inputs, targets = (tensor.chunk(pipe.schedule.num_microbatches)[0].to(device) for tensor in batch)
    dist.barrier()
    stages = []
    for stage in pipe.stages:
        boundary = stage.example_input
        example = inputs if stage.is_first else torch.randn(boundary.shape, dtype=boundary.dtype, device=device)
        stages.append(measure_stage(stage, example, stage.example_output, targets, loss_fn))
    for stage in pipe.stages:
        for parameter in stage.submod.parameters():
            parameter.grad = None
    ranks = pipe.schedule.stage_ranks
    pairs = sorted({(min(pair), max(pair)) for pair in pairwise(ranks) if pair[0] != pair[1]})
    return MeasuredCosts(
        stages=tuple(stages),
        message_ns=measure_message_ns(pairs, pipe.message, device)
        if pipe.mesh_plan is None
        else measure_exchanges_ns(
            pipe.mesh_plan, [stage for stage in pipe.stages if isinstance(stage, MeshStage)], device
        ),
        overhead=measure_overhead(pipe.message, device),
        message_bytes=sum(
            2 * stage.example_input.nbytes
            for stage in pipe.stages
            if not stage.is_first and ranks[stage.stage_index - 1] != ranks[stage.stage_index]
        ),
    )


def measure_stage(
    stage: RuntimeStage, example_input: Tensor, example_output: Tensor, targets: Tensor, loss_fn: LossFunction
) -> StageMeasurement:
    """Run one stage alone on `example_input`, a microbatch; it leaves gradients in the parameters."""
    alone = _Alone(stage, example_input, example_output, targets, loss_fn)
    forwards, backwards, weights = [], [], []
    for _ in range(_REPEATS + 1):
        hidden = alone.received()
        taken, output = _timed(partial(alone.forward, hidden), stage.device)
        forwards.append(taken)
        taken, _nothing = _timed(partial(alone.backward, output), stage.device)
        backwards.append(taken)
        if stage.dw_builder is not None:
            taken, _nothing = _timed(stage.dw_builder(), stage.device)
            weights.append(taken)
    weight_ns = _median(weights) if weights else 0
    activation, waiting, working = _memory(alone)
    return StageMeasurement(
        stage=stage.stage_index,
        forward_ns=_median(forwards),
        backward_ns=_median(backwards) + weight_ns,
        weight_ns=weight_ns,
        activation_bytes=activation,
        until_weight_bytes=waiting,
        working_bytes=working,
    )


class _Alone:
    """A stage that is run without its neighbours."""

    def __init__(
        self, stage: RuntimeStage, example_input: Tensor, example_output: Tensor, targets: Tensor, loss_fn: LossFunction
    ) -> None:
        self.stage = stage
        self.example_input = example_input
        self.targets = targets
        self.loss_fn = loss_fn
        self.gradient = None if stage.is_last else torch.randn_like(example_output, device=stage.device)

    def received(self) -> Tensor:
        """Return the input of a forward: the batch is there already, a boundary tensor comes as a new one."""
        return self.example_input if self.stage.is_first else self.example_input.clone().requires_grad_()

    def forward(self, hidden: Tensor) -> Tensor:
        output = self.stage.submod(hidden)
        return self.loss_fn(output, self.targets) if self.stage.is_last else output

    def backward(self, output: Tensor) -> None:
        if output.requires_grad:
            torch.autograd.backward(output, self.gradient)
        self.stage.backward_ended_alone()


def _memory(alone: _Alone) -> tuple[int, int, int]:
    """Return bytes after the forward, between input and weight gradient, and needed by the actions themselves."""
    stage = alone.stage
    parameters = list(stage.submod.parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    there = [*parameters, *gradients, alone.example_input, alone.targets]
    with memory_meter(stage.device, there if alone.gradient is None else [*there, alone.gradient]) as meter:
        before = meter.live_bytes
        working = []

        def action(work: Callable[[], Any]) -> Any:
            meter.reset_peak()
            start = meter.live_bytes
            result = work()
            working.append(meter.peak_bytes - max(start, meter.live_bytes))
            return result

        output = action(lambda: alone.forward(alone.received()))
        activation = meter.live_bytes - before
        action(partial(alone.backward, output))
        del output
        waiting = 0
        if stage.dw_builder is not None:
            weights = stage.dw_builder()
            waiting = meter.live_bytes - before
            action(weights)
    arriving = 0 if alone.gradient is None else alone.gradient.nbytes  # the gradient that a backward is given
    return activation, waiting, max(working) + arriving


def measure_message_ns(pairs: Sequence[tuple[int, int]], boundary: Tensor, device: torch.device) -> int:
    """Return how long a boundary tensor travels between two ranks, the mean over `pairs`; every rank calls it."""
    rank = dist.get_rank()
    buffer = torch.empty_like(boundary, device=device)
    total = torch.zeros(1, dtype=torch.float64, device=device)
    for first, second in pairs:
        dist.barrier()
        if rank == first:
            total += _median([_there_and_back(buffer, second, device) for _ in range(_MESSAGES)]) / 2
        elif rank == second:
            for _ in range(_MESSAGES):
                dist.recv(buffer, src=first)
                dist.send(buffer, dst=first)
    dist.all_reduce(total)
    return round(total.item() / len(pairs)) if pairs else 0


def _there_and_back(buffer: Tensor, other: int, device: torch.device) -> int:
    start = time.perf_counter_ns()
    dist.send(buffer, dst=other)
    dist.recv(buffer, src=other)
    synchronize(device)
    return time.perf_counter_ns() - start


def _timed(work: Callable[[], Any], device: torch.device) -> tuple[int, Any]:
    synchronize(device)
    start = time.perf_counter_ns()
    result = work()
    synchronize(device)
    return time.perf_counter_ns() - start, result


def _median(times_ns: Sequence[int]) -> int:
    """Return the median of all times but the first, which warms up."""
    return round(statistics.median(times_ns[1:]))
