"""``--baseline``: what the user runs, in the table, with its rank and its reasons."""

import json

import pytest

from tests.cli.verbs.tune.test_answers import QUICK
from tests.cli.verbs.tune.test_tune_command import table_of

SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size {tensor} --pipeline-model-parallel-size 2 \\
  --micro-batch-size 2 --global-batch-size 16 --seq-length 2048 --num-layers 8 --use-distributed-optimizer \\
  --sequence-parallel {more}
"""
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


@pytest.fixture
def script(folder):
    def written(tensor: int = 2, more: str = FULL):
        path = folder / "run.sh"
        path.write_text(SCRIPT.format(tensor=tensor, more=more))
        return path

    return written


def test_it_has_a_row_a_rank_and_reasons(evenflow, folder, script):
    result = evenflow(*QUICK, "--baseline", script(), "--json", "tune.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "tune.json").read_text())
    yours = found["baseline"]
    row = next(row.split() for row in table_of(result.stdout) if row.startswith("yours"))
    assert f"{yours['step_ms']:,.1f}" in row
    assert yours["values"]["tensor"] == 2
    assert yours["recompute"]["full"] == [[4, 4]]
    assert yours["fits"]
    assert yours["outside"] is None
    assert yours["improved_step_ms"] < yours["step_ms"]
    faster = sum(one["step_ms"] < yours["step_ms"] for one in found["ranked"])
    assert 1 + faster <= yours["rank"] <= yours["last_rank"] <= yours["of"]
    parts = {part["name"]: part for part in yours["explained"]["parts"]}
    assert parts["recomputation"]["other_ms"] > 0
    assert sum(part["other_ms"] for part in parts.values()) == pytest.approx(yours["step_ms"])
    text = " ".join(result.stdout.split())
    assert f"rank {yours['rank']}" in text
    assert "% slower than #1: it costs" in text
    assert "for Megatron-LM" in text  # the framework of the file
    assert found["target"] == "megatron"


def test_it_may_be_outside_of_the_space(evenflow, folder, script):
    result = evenflow(*QUICK, "--max-tensor", 1, "--baseline", script(), "--json", "tune.json")
    assert result.exit_code == 0, result.output
    assert "yours is not in the space: tensor must be at most 1, got 2" in result.stdout
    assert json.loads((folder / "tune.json").read_text())["baseline"]["improved_step_ms"] is None


@pytest.mark.parametrize(
    ("tensor", "more", "options", "message"),
    [
        (3, "", (), "tensor x context x pipeline must divide the 8 devices, got 6"),
        (2, "--global-batch-size 32", (), "must be 16, as asked for"),
        (2, "", ("--baseline-of", "mindformers"), "error: "),
        (2, "", ("--baseline-of", "colossalai"), "--baseline-of must be one of"),
    ],
)
def test_a_file_that_cannot_be_is_one_message(evenflow, script, tensor, more, options, message):
    result = evenflow(*QUICK, "--baseline", script(tensor, more), *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_framework_without_a_file(evenflow):
    result = evenflow(*QUICK, "--baseline-of", "megatron")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--baseline-of must come with --baseline" in result.stderr


def test_fronts_of_memory_devices_and_changes(evenflow, folder, script):
    result = evenflow(*QUICK, "--baseline", script(), "--pareto", "--time-limit", 8, "--json", "tune.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "tune.json").read_text())
    fronts = found["pareto"]
    assert fronts["memory"][0]["step_ms"] == fronts["devices"][0]["step_ms"] == found["step_ms"]
    for name, measure in (("memory", "peak_mb"), ("devices", "devices"), ("changes", "changes")):
        points = [(one[measure], one["step_ms"]) for one in fronts[name]]
        assert points
        assert all(
            not (other != point and other[0] <= point[0] and other[1] <= point[1])
            for point in points
            for other in points
        )
    assert fronts["changes"][0]["changes"] == 0
    for title in ("step against memory", "step against devices", "step against changes"):
        assert title in result.stdout
