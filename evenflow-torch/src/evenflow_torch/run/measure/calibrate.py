"""Costs of this rank's actions here and now: short measurements before the training, nothing fitted afterwards.

durations   each stage alone, on tensors of the right shapes, all ranks at the same time; a rank's stages in turn, so
            that each finds the caches as the others have left them; medians
messages    a boundary tensor to the neighbour and back, one pair of ranks after the other; half of the median
overhead    what the runtime needs beside that: see `evenflow_torch.run.measure.overhead`

Durations and messages that scatter are measured again: see `evenflow_torch.run.measure.settled`.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from evenflow_torch.run.assembly.batches import Batch
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.host_traffic import Moved
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.torch_names import reduce_nothing
from evenflow_torch.run.measure.exchange_times import measure_exchanges_ns
from evenflow_torch.run.measure.live_memory import memory_meter
from evenflow_torch.run.measure.load import Load
from evenflow_torch.run.measure.overhead import measure_overhead
from evenflow_torch.run.measure.recorder import synchronize
from evenflow_torch.run.measure.settled import settled
from evenflow_torch.run.mesh.mesh_stage import MeshStage
from evenflow_torch.run.replicas.replicas import Replicas
from evenflow_torch.run.values.run_result import Conditions, Overhead, RankResult, Run

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
    runs: tuple[Run, ...]
    """The same three of every run, in order; runs at the same place were at the same time on all ranks."""
    activation_bytes: int
    """Live after the forward, when what moves to the host has left."""
    offloaded_bytes: int
    """Live after the forward until that has left; zero where nothing moves when the plan says."""
    copy_ns: int
    """Time of a copy of that in one direction, the median of both."""
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
    conditions: Conditions
    """How often stages were measured, and under which load of this rank."""

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
            offloaded_bytes=self.by_stage("offloaded_bytes"),
            copy_ns=self.by_stage("copy_ns"),
            runs={stage.stage: stage.runs for stage in self.stages},
        )


def calibrate(pipe: Pipeline, batch: Batch, loss_fn: LossFunction) -> MeasuredCosts:
    """Measure this rank's stages and the messages between all ranks; every rank calls it. No gradients are left."""
    device = pipe.stages[0].device
    inputs, targets = (tensor.chunk(pipe.schedule.num_microbatches)[0].to(device) for tensor in batch)
    dist.barrier()
    alone = []
    for stage in pipe.stages:
        if isinstance(stage.submod, FSDPModule):  # as in the step, gathers and reductions are no part of its actions
            reduce_nothing(stage.submod)
        boundary = stage.example_input
        example = inputs if stage.is_first else torch.randn(boundary.shape, dtype=boundary.dtype, device=device)
        alone.append(_Alone(stage, example, stage.example_output, targets, loss_fn))
    load = Load()
    with load.watched():
        stages, rounds, error = _measured(alone, device)
    for stage in pipe.stages:
        stage.forget()
    ranks = pipe.schedule.stage_ranks
    pairs = sorted({(min(pair), max(pair)) for pair in pairwise(ranks) if pair[0] != pair[1]})
    return MeasuredCosts(
        stages=stages,
        message_ns=measure_message_ns(pairs, pipe.message, device, pipe.replicas)
        if pipe.mesh_plan is None
        else measure_exchanges_ns(
            pipe.mesh_plan,
            [stage for stage in pipe.stages if isinstance(stage, MeshStage)],
            device,
            num_replicas=pipe.replicas.count,
        ),
        overhead=measure_overhead(pipe.message, device),
        message_bytes=sum(
            2 * stage.example_input.nbytes
            for stage in pipe.stages
            if not stage.is_first and ranks[stage.stage_index - 1] != ranks[stage.stage_index]
        ),
        conditions=Conditions(runs=rounds * _REPEATS, error=error, waiting=load.share),
    )


def _measured(alone: Sequence["_Alone"], device: torch.device) -> tuple[tuple[StageMeasurement, ...], int, float]:
    """Return the costs of stages, how often they were all measured, and the error of the times on the worst rank."""
    for stage in alone:  # to warm up
        stage.times()
    found = settled(lambda: _together([stage.times() for stage in alone] for _ in range(_REPEATS)), device)
    medians, times = iter(found.medians_ns), iter(found.times)
    stages = []
    for stage in alone:
        forward, backward, weight = (next(medians) for _ in range(3))
        runs = zip(*(next(times) for _ in range(3)), strict=True)
        activation, moved, waiting, working = _memory(stage)
        stages.append(
            StageMeasurement(
                stage=stage.stage.stage_index,
                forward_ns=forward,
                backward_ns=backward + weight,
                weight_ns=weight,
                runs=tuple((first, second + third, third) for first, second, third in runs),
                activation_bytes=activation,
                offloaded_bytes=moved,
                copy_ns=_copy_ns(stage, device),
                until_weight_bytes=waiting,
                working_bytes=working,
            )
        )
    return tuple(stages), found.rounds, found.error


def _together(runs: Iterable[Iterable[tuple[int, int, int]]]) -> list[list[int]]:
    """Return the times of all stages' forwards, backwards and weight gradients, one list for each, from run to run."""
    rows = [[time for of_stage in run for time in of_stage] for run in runs]
    return [list(times) for times in zip(*rows, strict=True)]


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

    def times(self) -> tuple[int, int, int]:
        """Run it once; return the times of forward, backward and, where a split leaves it for later, weight gradient.

        It leaves gradients in the parameters. Where nothing is trained up to the stage's end, it has no backward.
        """
        device, weight_ns = self.stage.device, 0
        hidden = self.received()
        forward_ns, output = _timed(partial(self.forward, hidden), device)
        is_trained = output.requires_grad
        backward_ns, _nothing = _timed(partial(self.backward, output), device)
        if self.stage.dw_builder is not None:
            weight_ns, _nothing = _timed(self.stage.dw_builder(), device)
        return (forward_ns, backward_ns, weight_ns) if is_trained else (forward_ns, 0, 0)

    def received(self) -> Tensor:
        """Return the input of a forward: the batch is there already, a boundary tensor comes as a new one."""
        is_trained = self.stage.example_input.requires_grad
        return self.example_input if self.stage.is_first else self.example_input.clone().requires_grad_(is_trained)

    def place(self) -> Moved | None:
        """Return a place for what a forward moves; None where nothing moves when the plan says."""
        return None if self.stage.traffic is None else self.stage.traffic.moved()

    def forward(self, hidden: Tensor, moved: Moved | None = None) -> Tensor:
        with self.stage.submod.offload.into(moved):
            output = self.stage.submod(hidden)
        return self.loss_fn(output, self.targets) if self.stage.is_last else output

    def backward(self, output: Tensor) -> None:
        if output.requires_grad:
            torch.autograd.backward(output, self.gradient)
        self.stage.backward_ended_alone()


def _copy_ns(alone: _Alone, device: torch.device) -> int:
    """Return how long what a stage moves is on its way, the median of both directions; 0 where nothing moves."""
    times = []
    for _ in range(_REPEATS):
        moved = alone.place()
        if moved is None:
            return 0
        output = alone.forward(alone.received(), moved)
        for begin, wait in ((moved.leave, moved.has_left), (moved.fetch, moved.is_back)):
            synchronize(device)
            start = time.perf_counter_ns()
            begin()
            wait()
            synchronize(device)
            times.append(time.perf_counter_ns() - start)
        del output
    return round(statistics.median(times))


def _memory(alone: _Alone) -> tuple[int, int, int, int]:
    """Return bytes after the forward, those that leave then, those between input and weight gradient, and those that
    actions need for themselves.
    """
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

        moved, leaving = alone.place(), 0
        output = action(lambda: alone.forward(alone.received(), moved))
        activation = meter.live_bytes - before
        if moved is not None:
            moved.leave()
            moved.has_left()
            leaving = activation - (meter.live_bytes - before)
            moved.fetch()
            moved.is_back()
        action(partial(alone.backward, output))
        del output
        waiting = 0
        if stage.dw_builder is not None:
            weights = stage.dw_builder()
            waiting = meter.live_bytes - before
            action(weights)
    arriving = 0 if alone.gradient is None else alone.gradient.nbytes  # the gradient that a backward is given
    return activation - leaving, leaving, waiting, max(working) + arriving


def measure_message_ns(
    pairs: Sequence[tuple[int, int]], boundary: Tensor, device: torch.device, replicas: Replicas
) -> int:
    """Return how long a boundary tensor travels between two ranks, the mean over `pairs`; every rank calls it.

    Replicas of the pipeline measure at the same time, as they send in a step; the result is the mean over all.
    """
    group = replicas.pipeline
    rank = dist.get_rank(group)
    buffer = torch.empty_like(boundary, device=device)

    def measure() -> list[list[int]]:
        found = []
        for first, second in pairs:
            dist.barrier()
            if rank == first:
                found.append([_there_and_back(buffer, second, device, group) for _ in range(_MESSAGES)][1:])
            elif rank == second:
                for _ in range(_MESSAGES):
                    dist.recv(buffer, group=group, group_src=first)
                    dist.send(buffer, group=group, group_dst=first)
        return found

    total = torch.tensor([sum(settled(measure, device).medians_ns) / 2], dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return round(total.item() / len(pairs) / replicas.count) if pairs else 0


def _there_and_back(buffer: Tensor, other: int, device: torch.device, group: dist.ProcessGroup) -> int:
    start = time.perf_counter_ns()
    dist.send(buffer, group=group, group_dst=other)
    dist.recv(buffer, group=group, group_src=other)
    synchronize(device)
    return time.perf_counter_ns() - start


def _timed(work: Callable[[], Any], device: torch.device) -> tuple[int, Any]:
    synchronize(device)
    start = time.perf_counter_ns()
    result = work()
    synchronize(device)
    return time.perf_counter_ns() - start, result
