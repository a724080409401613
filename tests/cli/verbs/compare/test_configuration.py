"""A configuration beside a script that says the pipeline: no size has to be given twice."""

import json

import pytest

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
    assert "Missing option '--ranks'" in result.stderr
