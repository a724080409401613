"""A configuration beside a script that says the pipeline: no size has to be given twice."""

import json

import pytest

from tests.paths import EXAMPLES

MODEL = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
}  # fmt: skip
SCRIPT = """\
torchrun pretrain_gpt.py --num-layers 8 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 \\
    --world-size 2 --micro-batch-size 1 --global-batch-size 6
"""
ASKED = ("compare", "model.json", "--accelerator", "h100", "--seq", 1024, "--baseline", "run.sh", "--time-limit", 5)


@pytest.fixture
def files(folder):
    (folder / "model.json").write_text(json.dumps(MODEL))
    (folder / "run.sh").write_text(SCRIPT)


def test_the_sizes_are_those_of_the_script(files, folder, evenflow):
    result = evenflow(*ASKED, "--json", "both.json")
    assert result.exit_code == 0, result.stderr
    found = json.loads((folder / "both.json").read_text())
    sizes = [found["yours"][name] for name in ("ranks", "chunks", "microbatches")]
    assert sizes == [found["recommended"][name] for name in ("ranks", "chunks", "microbatches")] == [2, 2, 6]
    given = evenflow(*ASKED, "--ranks", 2, "--microbatches", 6, "--json", "given.json")
    assert given.exit_code == 0, given.stderr
    again = json.loads((folder / "given.json").read_text())
    assert again["yours"]["makespan_ms"] == found["yours"]["makespan_ms"]


def test_without_a_script_they_are_missing(files, evenflow):
    result = evenflow("compare", "model.json", "--accelerator", "h100")
    assert result.exit_code == 2
    assert "Missing options '--ranks', '--microbatches', or a plan file" in result.stderr


MEGATRON = """\
torchrun pretrain_gpt.py --num-layers 16 --pipeline-model-parallel-size 4 \\
  --num-layers-per-virtual-pipeline-stage 2 --micro-batch-size 1 --global-batch-size 16 --data-parallel-size 1
"""


def compared_notes(evenflow, folder, script: str, *more: str, layers: str = "dense_and_experts.json") -> str:
    (folder / "run.sh").write_text(script)
    (folder / "dense_and_experts.json").write_bytes((EXAMPLES / "dense_and_experts.json").read_bytes())
    result = evenflow(
        "compare", layers, "--baseline", "run.sh", "--no-naive", "--microbatches", 16, "--time-limit", 2, "--overwrite",
        *more,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return result.stderr


def test_what_forwards_beside_backwards_would_bring_is_said(evenflow, folder):
    notes = compared_notes(evenflow, folder, MEGATRON)
    assert (
        "note: with interleaved-overlap your plan would take 2,832.0 ms and 13.4 GB on rank 0 (-9.2 %); "
        "--schedule best plans with it" in notes
    )
    assert "would take" not in compared_notes(evenflow, folder, MEGATRON, "--schedule", "best")
    on = MEGATRON.replace("--data-parallel", "--overlap-moe-expert-parallel-comm --data-parallel")
    assert "would take" not in compared_notes(evenflow, folder, on)


def test_why_forwards_may_not_run_beside_backwards_is_said(evenflow, folder):
    described = json.loads((EXAMPLES / "dense_and_experts.json").read_text())
    for entry in described["layers_description"]:
        entry["memory_recompute"] = 10
    (folder / "full.json").write_text(json.dumps(described))
    full = MEGATRON.replace("--data-parallel", "--recompute-granularity full --recompute-method block "
                            "--recompute-num-layers 1 --data-parallel")  # fmt: skip
    notes = compared_notes(evenflow, folder, full, layers="full.json")
    assert "with interleaved-overlap, but not under your plan: recompute must be of the kinds select" in notes
    one_chunk = MEGATRON.replace("--num-layers-per-virtual-pipeline-stage 2", "")
    assert "interleaved-overlap" not in compared_notes(evenflow, folder, one_chunk)
