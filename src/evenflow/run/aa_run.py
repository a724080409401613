"""The A/A check of ``evenflow run``: every other measured step has checks, so that the same run shows their cost."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.model import Communication
from evenflow.run.aa_check import AACheck, measure_compare_ns
from evenflow.run.aa_plan import plan_checks
from evenflow.run.assemble import Batch, Pipeline
from evenflow.run.comparison import costs_of
from evenflow.run.job import WARM_UP_STEPS, AAReport, Mismatch, RankAudit, RankResult, RunJob
from evenflow.simulate import build_graph, run

_Steps = list[tuple[bool, int, int]]
"""Of every measured step: whether it had checks, its begin and its end."""


class AARun:
    """Steps with and without checks in turn. Made on every rank, after the calibration."""

    def __init__(
        self,
        pipe: Pipeline,
        job: RunJob,
        *,
        calibrated: RankResult,
        overhead_ns: int,
        message_ns: int,
        clock_offset_ns: int,
        tell: Callable[[Mismatch], None],
    ) -> None:
        self._pipe = pipe
        self._fault = job.fault
        self._offset_ns = clock_offset_ns
        self._steps: _Steps = []
        self._tell = tell
        fault = job.fault if job.fault is not None and job.fault.rank == dist.get_rank() else None
        compare_ns = {stage.stage_index: measure_compare_ns(stage) for stage in pipe.stages}
        gathered: list[tuple[RankResult, int, dict[int, int]]] = [None] * dist.get_world_size()  # type: ignore[list-item]
        dist.all_gather_object(gathered, (calibrated, overhead_ns, compare_ns))
        ranks = [rank for rank, _, _ in gathered]
        overheads_ns = [overhead for _, overhead, _ in gathered]
        by_stage = {stage: ns for _, _, compared in gathered for stage, ns in compared.items()}
        costs = costs_of(pipe.schedule, ranks, round(statistics.mean(overheads_ns)))
        communication = Communication(latency_ns=message_ns)
        checks = plan_checks(
            run(build_graph(pipe.schedule), costs.durations, communication),
            costs,
            compare_ns=[by_stage[stage] for stage in range(pipe.schedule.num_stages)],
            communication=communication,
            everywhere=job.aa_everywhere,
        )
        self._check = AACheck(pipe, checks[dist.get_rank()], fault=fault)

    def has_checks(self, step: int) -> bool:
        """Whether checks run in a step: in every other one of those that are measured, and where there is a fault."""
        return (step > WARM_UP_STEPS and (step - WARM_UP_STEPS) % 2 == 1) or (
            self._fault is not None and self._fault.step == step
        )

    def step(self, batch: Batch, step: int) -> Tensor | None:
        """One step of the pipeline."""
        check = self.has_checks(step)
        known = len(self._check.mismatches)
        start_ns = time.perf_counter_ns()
        loss = self._check.step(batch, check=check)
        if loss is not None and loss.device.type == "cuda":
            torch.cuda.synchronize(loss.device)
        if step >= WARM_UP_STEPS:
            self._steps.append((check, start_ns - self._offset_ns, time.perf_counter_ns() - self._offset_ns))
        for mismatch in self._check.mismatches[known:]:
            self._tell(mismatch)
        return loss

    def own(self) -> tuple[RankAudit, _Steps]:
        """What this rank gives to `report`."""
        return self._check.audit(), self._steps


def report(ranks: Sequence[tuple[RankAudit, _Steps]]) -> AAReport:
    """What all ranks found. A step takes from the first begin on any rank to the last end."""
    times: dict[bool, list[int]] = {False: [], True: []}
    for step in zip(*(steps for _, steps in ranks), strict=True):
        times[step[0][0]].append(max(end for *_, end in step) - min(start for _, start, _ in step))
    return AAReport(
        ranks=[audit for audit, _ in ranks],
        num_checked_steps=len(times[True]),
        checked_step_ns=round(statistics.median(times[True])),
        plain_step_ns=round(statistics.median(times[False])),
    )
