"""Runs that are planned, measured where the accelerator reaches something else, and read back."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from evenflow.cluster import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.calibration.tunable import tunables
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import LatentAttention, Transformer
from evenflow.profiles.measured.as_run import run_of
from evenflow.profiles.measured.planned_runs import candidates, device_counts, planned_runs
from evenflow.profiles.measured.reading import format_runs, parse_runs
from evenflow.profiles.measured.to_calibrate import runs_to_calibrate
from evenflow.tune.question import TuningQuestion

MODEL = Transformer(
    hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=14_336, vocabulary=128_256, gated=True
)
H100 = accelerator_named("h100")
CHOSEN = tunables(["product_share", "operator_ns", "network_share", "link_share"])
TRUTH = {"product_share": 0.5, "operator_ns": 110_000.0, "network_share": 0.25, "link_share": 0.35}
COUNT = 6


@pytest.fixture(scope="module")
def proposals() -> list:
    question = TuningQuestion(
        model=MODEL, topology=Topology.of(H100), devices=32, global_batch=32, sequence=4096,
        memory_limit_bytes=H100.memory_bytes, schedules=("1f1b", "interleaved"), allow_empty=False,
    )  # fmt: skip
    return list(candidates(question, can_run=lambda prediction: True))


def miss(runs: Sequence[Measurement], truth: dict[str, float], seed: int) -> float:
    """How far off the parameters are after a fit to steps with 2 % of noise: widths of what was known, squared."""
    noise = np.random.default_rng(seed).normal(0.0, 0.02, len(runs))
    measured = [
        replace(run, step_ns=run.predicted(Quantity.TIME, run.reached.changed(truth)) * float(np.exp(error)))
        for run, error in zip(runs, noise, strict=True)
    ]
    reached = fit(measured, list(truth)).applied(runs[0].reached)
    return sum(
        (np.log(getattr(reached, tunable.name) / truth[tunable.name]) / tunable.width) ** 2 for tunable in CHOSEN
    )


def test_proposed_runs_find_the_truth_better_than_random_ones(proposals) -> None:
    chosen = [planned.measurement for planned in planned_runs(proposals, CHOSEN, COUNT)]
    drawn = [random.Random(seed).sample([one[1] for one in proposals], COUNT) for seed in range(2)]
    assert miss(chosen, TRUTH, 0) < np.mean([miss(runs, TRUTH, seed) for seed, runs in enumerate(drawn)])


def test_a_planned_run_reads_back_as_the_training_that_was_chosen(proposals) -> None:
    for planned in planned_runs(proposals, CHOSEN, 3, stem="ours"):
        assert planned.run.id.startswith("ours-")
        (again,) = parse_runs(format_runs([replace(planned.run, step_s=1.5)]), file="ours.csv")
        (read,) = runs_to_calibrate([again], H100).measurements
        assert read.training == planned.measurement.training
        assert read.step_ns == 1.5e9


def test_runs_fit_and_begin_with_few_devices(proposals) -> None:
    assert device_counts(64, 8) == (8, 16, 64)
    assert device_counts(4, 8) == (4,)
    assert {one[1].training.degrees.devices for one in proposals} == {8, 16, 32}
    for _run, _measurement, prediction in proposals:
        assert max(rank.total_bytes for rank in prediction.memory) <= H100.memory_bytes


def test_what_no_row_can_say_is_refused() -> None:
    latent = LatentAttention(query_rank=64, key_value_rank=64, plain_dim=64, rotary_dim=32, value_dim=64)
    training = Training(
        model=replace(MODEL, latent=latent), degrees=Degrees(), microbatch=1, global_batch=1, sequence=128
    )
    with pytest.raises(InputError, match="must be a plain decoder"):
        run_of(training, name="one", hardware="h100", devices_per_node=8)


def test_nothing_that_fits_is_refused() -> None:
    with pytest.raises(InputError, match="must allow a run that fits in memory"):
        planned_runs([], CHOSEN, 3)
