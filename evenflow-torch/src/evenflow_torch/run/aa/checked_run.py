"""The A/A check of ``evenflow run``: every other measured step has checks, so that the same run shows their cost."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import RankChecks, plan_checks
from evenflow.model import Communication
from evenflow.simulate import build_graph, run
from evenflow_torch.run.aa.aa_check import AACheck, measure_compare_ns
from evenflow_torch.run.assembly.batches import Batch
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.measure.calibrate import MeasuredCosts
from evenflow_torch.run.measure.comparison import costs_of, durations_of
from evenflow_torch.run.measure.recorder import synchronize
from evenflow_torch.run.values.aa_report import AAReport, Fault, Mismatch, RankAudit

_Steps = list[tuple[bool, int, int]]
"""Measured steps: whether a step had checks, its begin and its end."""


def checks_of_rank(pipe: Pipeline, calibration: MeasuredCosts, *, everywhere: bool = False) -> RankChecks:
    """Return the checks of this rank, from the durations that all ranks have measured; every rank calls it.

    Replicas of a stage do the same checks, those of the first pipeline.
    """
    compare_ns = {stage.stage_index: measure_compare_ns(pipe, stage) for stage in pipe.stages}
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (pipe.replicas.index, pipe.rank, calibration.rank_result(), compare_ns))
    first = {rank: (result, compared) for index, rank, result, compared in reversed(told) if index == 0}
    gathered = [first[rank] for rank in range(pipe.schedule.num_ranks)]
    by_stage = {stage: ns for _, compared in gathered for stage, ns in compared.items()}
    costs = costs_of(pipe.schedule, [result for result, _ in gathered], calibration.overhead, pipe.host_link)
    communication = Communication(latency_ns=calibration.message_ns)
    return plan_checks(
        run(build_graph(pipe.schedule), durations_of(costs, calibration.overhead), communication),
        costs,
        compare_ns=[by_stage[stage] for stage in range(pipe.schedule.num_stages)],
        communication=communication,
        everywhere=everywhere,
    )[pipe.rank]


class AARun:
    """Steps of a pipeline with and without checks, and their times."""

    def __init__(
        self,
        pipe: Pipeline,
        checks: RankChecks,
        *,
        faults: Sequence[Fault] = (),
        clock_offset_ns: int = 0,
        tell: Callable[[Mismatch], None] = lambda _: None,
    ) -> None:
        """Prepare this rank's checks and its own `faults`; `tell` is called with every mismatch, after its update."""
        self._offset_ns = clock_offset_ns
        self._device: torch.device = pipe.stages[0].device
        self._steps: _Steps = []
        self._tell = tell
        self._num_told = 0
        self._check = AACheck(pipe, checks, faults=[fault for fault in faults if fault.rank == dist.get_rank()])

    def step(self, batch: Batch, *, check: bool, measure: bool) -> Tensor | None:
        """Run one step of the pipeline, with checks or without; its time counts if `measure` says so."""
        start_ns = time.perf_counter_ns()
        loss = self._check.step(batch, check=check)
        synchronize(self._device)  # on every rank: its device may still be busy when the host is not
        if measure:
            end_ns = time.perf_counter_ns() - self._check.exchange_ns
            self._steps.append((check, start_ns - self._offset_ns, end_ns - self._offset_ns))
        return loss

    def update(self, optimizer: torch.optim.Optimizer, *, check: bool) -> None:
        """Update the parameters, with checks or without, and tell of the mismatches since the last time."""
        self._check.update(optimizer, check=check)
        for mismatch in self._check.mismatches[self._num_told :]:
            self._tell(mismatch)
            self._num_told += 1

    def own(self) -> tuple[RankAudit, _Steps]:
        """Return the audit and the times of this rank, for `report`."""
        return self._check.audit(), self._steps


def report(ranks: Sequence[tuple[RankAudit, _Steps]]) -> AAReport:
    """Return what all ranks found; a step takes from the first begin on any rank to the last end."""
    times: dict[bool, list[int]] = {False: [], True: []}
    for step in zip(*(steps for _, steps in ranks), strict=True):
        times[step[0][0]].append(max(end for *_, end in step) - min(start for _, start, _ in step))
    return AAReport(
        ranks=[audit for audit, _ in ranks],
        num_checked_steps=len(times[True]),
        checked_step_ns=round(statistics.median(times[True])),
        plain_step_ns=round(statistics.median(times[False])),
    )
