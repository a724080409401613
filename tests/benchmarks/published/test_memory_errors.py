"""How far peak memory is off with nothing measured: what docs/accuracy.md claims must not get worse unseen."""

from statistics import median

import pytest
from benchmarks.published.prediction import predicted

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun
from tests.paths import ROOT

DATA = ROOT / "benchmarks" / "published" / "data"


def errors(file: str) -> list[tuple[MeasuredRun, float]]:
    """Relative errors of the runs that state a peak, without the container suffixes that repeat a configuration."""
    found = []
    for run in map(completed, read_runs(DATA / f"{file}.csv")):
        if run.mem_gib and "_2nd" not in run.id:
            predicted_gib = predicted(run).memory_gib
            assert predicted_gib is not None
            found.append((run, predicted_gib / run.mem_gib - 1))
    return found


@pytest.mark.parametrize(
    ("file", "half_below", "mean"), [("megatron_golden", 0.025, 0.06), ("bigscience_tr11", 0.05, 0.06)]
)
def test_half_of_the_runs_are_closer_than_this(file: str, half_below: float, mean: float) -> None:
    off = [abs(error) for _, error in errors(file)]
    assert median(off) < half_below
    assert sum(off) / len(off) < mean


def test_dense_models_whose_devices_are_stated_are_close_on_hopper() -> None:
    """Kernels, workspaces and precision are known there: four of five runs are within three per cent."""
    of = [
        abs(error)
        for run, error in errors("megatron_golden")
        if run.hardware == "h100" and not run.experts and not any(each.field == "gpus" for each in run.assumed)
    ]
    assert len(of) > 20
    assert sorted(of)[int(0.8 * len(of))] < 0.03
