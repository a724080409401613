"""Model FLOPs of published runs."""

import pytest
from benchmarks.published.accuracy import DATA
from benchmarks.published.flops import is_launch_bound, model_tflops_per_gpu

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from tests.profiles.measured.rows import make_run


def test_the_flops_of_a_gpt_agree_with_the_published_formula() -> None:
    # [Megatron-LM, 2104.04473]: 72 B s l h² (1 + s / 6h + V / 12lh) without recomputation
    batch, seq, layers, hidden, vocab = 16, 2048, 32, 4096, 50257
    flops = 72 * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden))
    assert model_tflops_per_gpu(completed(make_run())) == pytest.approx(flops / 1.5 / 8 / 1e12)


def test_mosaicml_counts_the_same_flops() -> None:
    runs = [completed(run) for run in read_runs(DATA / "mosaicml_mpt.csv")]
    assert all(model_tflops_per_gpu(run) == pytest.approx(run.tflops_gpu, rel=0.035) for run in runs)


def test_only_active_experts_compute() -> None:
    dense = completed(make_run(ffn="8192"))
    sparse = completed(make_run(ffn="8192", experts="64", active_experts="2", expert_ffn="4096"))
    assert model_tflops_per_gpu(dense) == model_tflops_per_gpu(sparse)


def test_launches_decide_where_little_is_computed() -> None:
    assert not is_launch_bound(completed(make_run()))
    assert is_launch_bound(completed(make_run(step_s="60")))
    assert not is_launch_bound(completed(make_run(step_s="", mem_gib="3")))
    assert model_tflops_per_gpu(make_run(hidden="")) is None
