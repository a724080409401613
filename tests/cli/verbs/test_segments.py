"""Layers that are computed again in segments, through the commands."""

import json

import pytest

from evenflow.model import FULL, segment_kind

TWO = ("--ranks", 2, "--microbatches", 6, "--time-limit", 20)
SCRIPT = (
    "torchrun pretrain_gpt.py --num-layers 4 --pipeline-model-parallel-size 2 --world-size 2 --micro-batch-size 1 "
    "--global-batch-size 6 --recompute-granularity full --recompute-method uniform --recompute-num-layers 2\n"
)


def least_memory(folder, evenflow, *options: object) -> float:
    """The smallest limit that would do, in megabytes."""
    result = evenflow("plan", "tiny.json", *TWO, "--memory", "1MB", "--json", "none.json", *options)
    assert result.exit_code == 3, result.stderr
    return float(json.loads((folder / "none.json").read_text())["smallest_limit_mb"])


def used(written: dict) -> dict:
    """The kinds that some layer is under, with their tables."""
    return {kind: table for kind, table in written["recompute"].items() if any(map(any, table))}


def test_a_plan_in_segments_is_said_written_and_simulated_again(folder, evenflow):
    limit = ("--memory", f"{int(least_memory(folder, evenflow, '--recompute-segments', '2,all')) + 1}MB")
    result = evenflow("plan", "tiny.json", *TWO, *limit, "--recompute-segments", "2,all", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "plan.json").read_text())
    assert written["network"]["recompute_segments"] == [2, 0]
    again = evenflow("simulate", "plan.json", "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    simulated = json.loads((folder / "again.json").read_text())
    assert simulated["makespan_ms"] == written["makespan_ms"]
    assert simulated["peak_memory_mb"] == written["peak_memory_mb"]
    assert used(simulated) == used(written)


def test_gpipe_keeps_the_input_of_every_stage(folder, evenflow):
    result = evenflow("plan", "tiny.json", *TWO, "--gpipe", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "plan.json").read_text())
    assert written["schedule"] == "f-then-b"
    assert written["recompute"][segment_kind(0)] == written["layers"]
    assert not any(map(any, written["recompute"][FULL]))


def test_megatrons_uniform_groups_are_simulated_planned_and_written(folder, evenflow):
    (folder / "run.sh").write_text(SCRIPT)
    compared = evenflow("compare", "tiny.json", "--baseline", "run.sh", "--time-limit", 10, "--json", "compared.json")
    assert compared.exit_code == 0, compared.stderr
    yours = json.loads((folder / "compared.json").read_text())["yours"]
    assert yours["recompute"]["segment2"] == [[2, 2]]
    assert "recomputed together" not in compared.stdout + compared.stderr


def test_segments_are_written_as_megatrons_uniform_method(folder, evenflow):
    layers = ("--layers", "2,2", "--recompute", "segment2=2,2", "--recompute-segments", "2")
    made = evenflow("simulate", "tiny.json", "--microbatches", 6, *layers, "--json", "plan.json")
    assert made.exit_code == 0, made.stderr
    exported = evenflow("export", "plan.json", "--to", "megatron")
    assert exported.exit_code == 0, exported.stderr
    assert "--recompute-method uniform" in exported.stdout
    assert "--recompute-num-layers 2" in exported.stdout


def test_megatron_has_whole_segments_alone(folder, evenflow):
    layers = ("--layers", "1,3", "--recompute", "segment2=1,3", "--recompute-segments", "2")
    made = evenflow("simulate", "tiny.json", "--microbatches", 6, *layers, "--json", "plan.json")
    assert made.exit_code == 0, made.stderr
    exported = evenflow("export", "plan.json", "--to", "megatron")
    assert "Megatron-LM cannot run the plan as it is" in exported.stdout
    assert "--recompute-method uniform" not in exported.stdout
    asked = ("plan", "tiny.json", "--microbatches", 6, "--ranks", 2, "--time-limit", 5)
    decided = evenflow(*asked, "--target", "megatron", "--recompute-segments", "2", "--layers-per-rank", "2,2")
    assert decided.exit_code == 0, decided.stderr
    refused = evenflow(*asked, "--target", "megatron", "--recompute-segments", "2")
    assert refused.exit_code == 2
    assert "--recompute-segments must divide the layers of every cell for Megatron-LM" in refused.stderr
    refused = evenflow(*asked, "--target", "mindformers", "--recompute-segments", "2")
    assert refused.exit_code == 2
    assert "--recompute-segments must be left out for MindFormers, which has no such segments" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--recompute-segments", "1"),
            "--recompute-segments must be integers from 2 on with commas between them, or all",
        ),
        (
            ("--recompute-segments", "9"),
            "--recompute-segments must be integers from 2 to the 4 layers, or all of a stage",
        ),
        (("--gpipe", "--schedule", "1f1b"), "--schedule must not be given beside --gpipe"),
        (("--gpipe", "--target", "megatron"), "--target must not be given beside --gpipe"),
    ],
)
def test_what_makes_no_sense_is_refused(folder, evenflow, options, message):
    result = evenflow("plan", "tiny.json", *TWO, *options)
    assert result.exit_code == 2
    assert message in result.stderr
