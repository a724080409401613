"""Dry runs with known memory, by the equation written out."""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.model import Plan
from evenflow.profiles.memory.peaks import DryRuns, Peak

MB = 2**20
ENDS = ("constant", "parameter", "head", "tail")


def dry_run(layers: list[int], **recompute: list[int]) -> Plan:
    tables = {kind: (tuple(row),) for kind, row in recompute.items()}
    return Plan(schedule="1f1b", num_microbatches=len(layers), layers=(tuple(layers),), recompute=tables)


def computed_peak(plan: Plan, rank: int, truth: Mapping[str, int]) -> int:
    """The equation of the [SAPP guide, 内存分解原理], written out."""
    stages, layers = plan.num_ranks, plan.layers[0][rank]
    live = sum(plan.count(kind, 0, rank) * size for kind, size in truth.items() if kind not in ENDS)
    peak = layers * truth["parameter"] + (stages - rank) * live + truth["constant"]
    return peak + (truth["head"] if rank == 0 else 0) + (truth["tail"] if rank == stages - 1 else 0)


def measured(rounds: list[Plan], truth: Mapping[str, int]) -> DryRuns:
    """All stages of the first round, the middle ones of the others."""
    peaks = [
        Peak(round_index=index, rank=rank, peak_bytes=computed_peak(plan, rank, truth))
        for index, plan in enumerate(rounds)
        for rank in range(plan.num_ranks)
        if index == 0 or 0 < rank < plan.num_ranks - 1
    ]
    return DryRuns(rounds=tuple(rounds), peaks=tuple(peaks), place="init.yaml: memory_usage")


def changed(runs: DryRuns, rank: int, by_bytes: int) -> DryRuns:
    peaks = [replace(peak, peak_bytes=peak.peak_bytes + by_bytes * (peak.rank == rank)) for peak in runs.peaks]
    return replace(runs, peaks=tuple(peaks))


TRUTH = {"constant": 900 * MB, "parameter": 400 * MB, "full": 30 * MB, "none": 700 * MB, "head": 500 * MB, "tail": 0}
EIGHT = dry_run([6, 5, 7, 4, 6, 8, 5, 7], full=[2, 0, 3, 1, 4, 2, 0, 3])
