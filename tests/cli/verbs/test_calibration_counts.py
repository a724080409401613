"""What `predict`, `plan` and `tune` make of a calibration, and say of what lies beyond its runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.cluster import accelerator_named
from evenflow.cluster.calibration import CalibrationRecord, CoveredRuns
from evenflow.profiles.accelerator_file import format_accelerator_file

CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
COVERED = CoveredRuns(
    runs=6, precision="bf16", experts=False, software=("fused-attention", "fused-elementwise", "no-cuda-graphs"),
    hidden=(2048, 2048), sequence=(2048, 4096), devices=(2, 16), devices_per_node=(8, 8), tensor=(1, 1),
    pipeline=(1, 2), context=(1, 1), expert=(1, 1),
)  # fmt: skip
PREDICT = ("predict", "--model", "small.json", "--gpus", 8, "--tensor", 2, "--global-batch", 16, "--seq", 4096)
PLAN = ("plan", "small.json", "--ranks", 2, "--microbatches", 4, "--tensor", 2, "--seq", 4096)
TUNE = ("tune", "--model", "small.json", "--gpus", 8, "--global-batch", 16, "--seq", 4096, "--fix", "tensor=2")


@pytest.fixture
def cluster(folder: Path) -> Path:
    """An H100 that reaches half as much in products, by runs of one width."""
    h100 = accelerator_named("h100")
    before = h100.reached.product_share
    record = CalibrationRecord(runs=6, step_error=0.02, before={"product_share": before}, covered=(COVERED,))
    ours = replace(h100, name="ours", reached=h100.reached.changed({"product_share": before / 2}), calibration=record)
    (folder / "ours.yaml").write_text(format_accelerator_file(ours))
    (folder / "small.json").write_text(json.dumps(CONFIG))
    (folder / "wide.json").write_text(json.dumps(CONFIG | {"hidden_size": 8192, "num_attention_heads": 64}))
    return folder


def said(evenflow, *arguments: object) -> tuple[str, dict[str, object]]:
    """What a command prints, as one line, and its JSON."""
    result = evenflow(*arguments, "--accelerator", "ours.yaml", "--json", "answer.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return " ".join(f"{result.stdout} {result.stderr}".split()), json.loads(Path("answer.json").read_text())


@pytest.mark.parametrize("arguments", [PREDICT, PLAN, TUNE], ids=["predict", "plan", "tune"])
def test_degrees_beyond_the_runs_are_named_and_the_fit_counts(evenflow, cluster: Path, arguments) -> None:
    text, fields = said(evenflow, *arguments)
    question = fields.get("question", fields)
    assert "beyond the runs that ours was calibrated on: tensor parallelism 2 (runs: 1); what was fitted counts" in text
    assert question["calibration_counts"] == 1.0
    assert question["extrapolates"] == [{"name": "tensor", "value": 2, "runs": [1, 1]}]


@pytest.mark.parametrize("arguments", [PREDICT, PLAN], ids=["predict", "plan"])
def test_a_wide_model_is_predicted_as_before_the_calibration(evenflow, cluster: Path, arguments) -> None:
    wide = ["wide.json" if argument == "small.json" else argument for argument in arguments]
    text, fields = said(evenflow, *wide)
    assert "hidden size 8,192 (runs: 2,048)" in text
    assert "nothing of what was fitted counts here" in text
    assert fields["calibration_counts"] == 0.0
    assert evenflow(*wide, "--accelerator", "h100", "--json", "known.json").exit_code == 0
    known = json.loads((cluster / "known.json").read_text())
    name = "step_ms" if "step_ms" in known else "makespan_ms"
    assert fields[name] == pytest.approx(known[name])
    assert "calibration_counts" not in known


def test_part_of_it_counts_at_twice_the_length(evenflow, cluster: Path) -> None:
    longer = [8192 if argument == 4096 else argument for argument in PREDICT]
    text, _fields = said(evenflow, *longer)
    assert "sequence length 8,192 (runs: 2,048 to 4,096)" in text
    assert "50 % of what was fitted counts here" in text
    assert "published runs" in text


def test_other_software_is_named(evenflow, cluster: Path) -> None:
    text, fields = said(evenflow, *PREDICT, "--cuda-graphs", "--precision", "fp8")
    assert "precision fp8 (runs: bf16)" in text
    assert "cuda-graphs delayed (runs: fused-attention fused-elementwise no-cuda-graphs)" in text
    assert fields["calibration_counts"] == 0.0
