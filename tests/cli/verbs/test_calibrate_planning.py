"""``evenflow calibrate --plan-runs``: runs as a table, a job array and rows, and what their logs make of them."""

import csv
import json
import subprocess
from pathlib import Path

import pytest

from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.accelerator_file import read_accelerator_file
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import format_runs, read_runs
from evenflow.profiles.measured.to_calibrate import measurement_of

pytestmark = pytest.mark.processes

CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
PLAN = ("calibrate", "--plan-runs", "small.json", "--accelerator", "h100", "--gpus", 16, "--num-runs", 4)
FITTED = ("--fit", "product_share,operator_ns,link_share")


@pytest.fixture
def config(folder: Path) -> Path:
    (folder / "small.json").write_text(json.dumps(CONFIG))
    return folder


def test_the_loop_closes(evenflow, config: Path) -> None:
    """What is planned is measured on an accelerator that reaches less, filled in, read back and fitted."""
    result = evenflow(*PLAN, *FITTED, "-o", "runs.sh", "--runs", "runs.csv", "--json", "runs.json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("4 runs of ")
    assert "evenflow calibrate runs.csv runs-*.log --accelerator h100 -o my_cluster.yaml" in result.stdout
    planned = read_runs(config / "runs.csv")
    assert [run.id for run in planned] == ["runs-0", "runs-1", "runs-2", "runs-3"]
    fields = json.loads((config / "runs.json").read_text())
    assert [run["id"] for run in fields["runs"]] == [run.id for run in planned]
    for run in fields["runs"]:
        assert [one["name"] for one in run["parameters"]] == ["product_share", "operator_ns", "link_share"]
        assert all(one["error_after"] <= one["error_before"] for one in run["parameters"])
    rows = list(csv.DictReader((config / "runs.csv").read_text().splitlines()))
    for row, run in zip(rows, planned, strict=True):
        one = measurement_of(completed(run))
        row["step_s"] = str(one.predicted(Quantity.TIME, one.reached.changed({"product_share": 0.45})) / 1e9)
    with (config / "measured.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    fitted = evenflow("calibrate", "measured.csv", "--accelerator", "h100", *FITTED, "-o", "ours.yaml")
    assert fitted.exit_code == 0, fitted.stderr
    reached = read_accelerator_file(config / "ours.yaml").reached
    assert reached.product_share == pytest.approx(0.45, rel=0.05)


def test_the_script_starts_each_run_and_writes_its_log(evenflow, config: Path) -> None:
    assert evenflow(*PLAN, *FITTED, "--target", "megatron", "-o", "runs.sh", "--runs", "runs.csv").exit_code == 0
    script = config / "runs.sh"
    assert "#SBATCH --array=0-3\n" in script.read_text()
    (config / "srun").write_text('#!/bin/bash\necho "$NODES $GPUS $TENSOR $PIPELINE $GLOBAL_BATCH|$*"\n')
    (config / "srun").chmod(0o755)
    for index, run in enumerate(read_runs(config / "runs.csv")):
        subprocess.run(
            ["bash", str(script), str(index)], check=True, cwd=config, timeout=60,
            env={"PATH": f"{config}:/usr/bin:/bin", "TRAIN": "train.sh"},
        )  # fmt: skip
        said, _bar, arguments = (config / f"runs-{index}.log").read_text().partition("|")
        assert said.split() == [str(size) for size in (-(-run.gpus // 8), run.gpus, run.tp, run.pp, run.gbs)]
        assert f"train.sh --num-layers 8 --pipeline-model-parallel-size {run.pp} " in arguments
        assert f"--tensor-model-parallel-size {run.tp} " in arguments
        assert f"--global-batch-size {run.gbs} " in arguments


def test_settings_that_are_no_flags_become_files(evenflow, config: Path) -> None:
    assert evenflow(*PLAN, *FITTED, "--target", "torchtitan", "-o", "runs.sh").exit_code == 0
    (config / "srun").write_text('#!/bin/bash\necho "$#"; cat "$SETTINGS_FOLDER"/*\n')
    (config / "srun").chmod(0o755)
    subprocess.run(
        ["bash", "runs.sh"], check=True, cwd=config, timeout=60,
        env={"PATH": f"{config}:/usr/bin:/bin", "TRAIN": "train.sh", "SLURM_ARRAY_TASK_ID": "1"},
    )  # fmt: skip
    log = (config / "runs-1.log").read_text()
    assert log.startswith("3\n")
    assert "tensor_parallel_degree" in log
    assert 'pipeline_parallel_schedule_csv = "order.csv"' in log
    assert (config / "runs-1" / "order.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibrate",), "RUNS must be given: CSV files, logs or folders of logs"),
        (("calibrate", "--gpus", 8, "runs.csv"), "--gpus must come with --plan-runs"),
        ((*PLAN, "runs.csv"), "RUNS must not be given beside --plan-runs"),
        ((*PLAN, "-o", "ours.yaml"), "--output must end in .sh"),
        (("calibrate", "--plan-runs", "small.json", "--gpus", 8), "--accelerator must be given with --plan-runs"),
        (("calibrate", "--plan-runs", "small.json", "--accelerator", "h100"), "--gpus must be given with --plan-runs"),
        ((*PLAN, "--fit", "driver_bytes"), "--fit must have a parameter of step times"),
    ],
)
def test_what_does_not_go_together(evenflow, config: Path, arguments, message: str) -> None:
    (config / "runs.csv").write_text(format_runs([]))
    result = evenflow(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
