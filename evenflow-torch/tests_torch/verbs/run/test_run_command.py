"""The command, as users call it: on real processes once, and what it refuses before any is started."""

import importlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from evenflow.cli.main import main
from evenflow.cluster.dtypes import DTYPES
from evenflow.errors import RunError
from evenflow_torch.run.job import launch
from evenflow_torch.run.job.run_folder import COMPILER_FOLDER
from evenflow_torch.run.values.run_job import Device, RunJob
from tests.export.trace_reader import read_trace
from tests.report.decoder import read_page
from tests_torch.run.job.launched import job
from tests_torch.run.warm_ranks import start_warm
from tests_torch.verbs.run.run_plans import written

verb: ModuleType = importlib.import_module("evenflow_torch.verbs.run.run_command")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return written(tmp_path / "plan.json")


@pytest.mark.processes
def test_a_plan_trains_is_verified_and_compared(plan: Path, tmp_path: Path) -> None:
    files = {option: tmp_path / option for option in ("json", "svg", "timeline", "trace", "html")}
    command = [sys.executable, "-m", "evenflow", "run", str(plan), "--model", "llama-tiny", "--steps", "4"]
    command += ["--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--dtype", "float64", "--verify"]
    command += ["--device", "cpu", "--lr", "0.01"]
    for option, path in files.items():
        command += [f"--{option}", str(path)]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    environment.pop(COMPILER_FOLDER, None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not list(temporary.iterdir()), "nor has torch left anything"
    assert [line.split()[1] for line in done.stdout.splitlines()[:4]] == ["1/4", "2/4", "3/4", "4/4"]
    assert "verification: losses and gradients agree" in done.stdout

    result = json.loads(files["json"].read_text(encoding="utf-8"))
    assert result["losses"][-1] < result["losses"][0], "it learns"
    assert result["verification"]["agrees"]
    assert (result["memory_limit_mb"], result["over_memory_limit"]) == (None, []), "the plan has no limit"
    assert "memory:" not in done.stdout
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12
    for side in ("predicted", "measured"):
        for busy, bubble in zip(result[side]["busy_ms"], result[side]["bubble_ms"], strict=True):
            assert busy + bubble == pytest.approx(result[side]["step_ms"])
    # The model of memory against what was live: parameters, gradients, optimizer and activations of the plan.
    for predicted, measured in zip(
        *(result[side]["peak_memory_mb"] for side in ("predicted", "measured")), strict=True
    ):
        assert predicted == pytest.approx(measured, rel=0.05)

    page = read_page(files["html"].read_text(encoding="utf-8"))
    assert [each["kind"] for each in page.head["timelines"]] == ["plan", "measured"]
    sides = [result[side]["step_ms"] * 1e6 for side in ("predicted", "measured")]
    assert [each["makespan_ns"] for each in page.head["timelines"]] == pytest.approx(sides)
    assert [each["layers"] for each in page.plans] == [[[2, 1], [1, 1]]]
    timeline = json.loads(files["timeline"].read_text(encoding="utf-8"))
    assert [[row[0] for row in rank] for rank in timeline["measured"]] == [
        [row[0] for row in rank] for rank in timeline["predicted"]
    ]
    for rank in timeline["measured"]:
        times = [time for _, start, end in rank for time in (start, end)]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] <= timeline["measured_step_ms"]
    trace = read_trace(files["trace"].read_text(encoding="utf-8"))
    for side in ("predicted", "measured"):
        processes = {process for process, name in trace.processes.items() if name.startswith(side)}
        work = [each for each in trace.slices if each.process in processes]
        assert len(work) == sum(map(len, timeline[side]))
        assert max(each.end_ns for each in work) == round(timeline[f"{side}_step_ms"] * 1e6)
    assert ET.fromstring(files["svg"].read_text(encoding="utf-8")).tag.endswith("svg")


@pytest.mark.processes
@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="wants a device that is not there")
def test_a_real_rank_that_raises_is_named_with_its_message() -> None:
    with pytest.raises(RunError, match=r"^rank \d failed: \w+: .*(CUDA|cuda|device|NVIDIA)"):
        launch.launch(replace(job(2), device=Device.CUDA), print)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, ["--layers", "7"], "add up to the 7"),
        ({}, ["--model", "CONFIG"], "model_type"),
        ({}, ["--heads", "7"], "attention heads"),
        ({}, ["--layers", "1000"], "add up to the 1000"),
        ({"layers": [[10**5 - 3, 1], [1, 1]], "recompute": {}}, [], "at most 10,000 layers"),
        ({}, ["--seq", "1000000000"], "MB of this machine, for all of its ranks, got '"),
        ({}, ["--vocab", "1000000000000"], "MB of this machine, for all of its ranks, got '"),
        (
            {},
            ["--seq", "10000000", "--microbatch", "1000"],
            "the memory that this run needs at least must be at most the ",
        ),
        ({}, ["--vocab", "100000000", "--hidden", "8192"], "MB of this machine, for all of its ranks, got '"),
        ({}, ["--hidden", "1000000", "--heads", "1"], "MB of this machine, for all of its ranks, got '"),
        ({}, ["--steps", "2"], "--steps"),
        ({}, ["--json", "PLAN"], "must not be the same file as the plan file"),
        ({}, ["--device", "tpu"], "--device"),
        ({"sequence_splits": 2}, [], "sequence_splits must be 1"),
        (
            {"recompute": {"mine": [[1, 0], [0, 0]]}},
            [],
            r"kind that can run (full, both, select, comm), or sub-modules that layers have",
        ),
        ({"schedule": "1f1b"}, [], "one chunk"),
        ({"layers": [[1, 1]]}, [], "chunks"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], options: list[str], message: str
) -> None:
    def start(*_arguments: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(launch, "_start", start)
    plan = written(tmp_path / "plan.json", **changes)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "granite"}', encoding="utf-8")
    options = [{"CONFIG": str(config), "PLAN": str(plan)}.get(option, option) for option in options]
    given = ["run", str(plan), *(options if "--model" in options else ["--model", "llama-tiny", *options])]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.mark.parametrize("options", [[], ["--layers", "many"]])
@pytest.mark.parametrize(("rank", "speaks"), [("0", True), ("1", False)])
def test_under_torchrun_bad_input_is_refused_once(
    plan: Path, rank: str, speaks: bool, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
    for name, value in (environment | TORCHRUN).items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(main, ["run", str(plan), "--model", "llama-tiny", *options])
    assert done.exit_code == 2
    assert bool(done.stderr) == speaks
    assert not speaks or ("'many'" if options else "must be 2, one process per rank, got 3") in done.stderr


def test_a_shell_that_has_a_rank_is_not_taken_for_torchrun(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Started(Exception):
        pass

    def start(*_arguments: Any) -> None:
        raise Started

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(launch, "_start", start)
    done = CliRunner().invoke(main, ["run", str(plan), "--model", "llama-tiny"])
    assert isinstance(done.exception, Started)


@pytest.mark.processes
def test_the_older_name_is_refused_without_the_variables_of_a_rank(plan: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    command = [sys.executable, "-m", "evenflow.run", str(plan), "--model", "llama-tiny"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "torchrun" in done.stderr
    assert "RANK" in done.stderr


OFFERED = next(option for option in verb.run.params if option.name == "dtype").type.name.strip("[]").split("|")


@pytest.mark.processes
@pytest.mark.parametrize("dtype", OFFERED)
def test_every_number_format_trains(dtype: str, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_warm(monkeypatch)
    command = [
        "run",
        str(plan),
        "--model",
        "llama-tiny",
        "--steps",
        "4",
        "--seq",
        "8",
        "--hidden",
        "16",
        "--heads",
        "2",
    ]
    done = CliRunner().invoke(main, [*command, "--vocab", "32", "--dtype", dtype, "--verify", "--device", "cpu"])
    assert done.exit_code == 0, done.stderr
    assert "verification: losses and gradients agree" in done.stdout


@pytest.mark.parametrize("name", ["bf16", "bfloat16", "fp64", "float64", "float32"])
def test_number_formats_have_both_names(name: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[RunJob] = []

    def launched(job: RunJob, _report: Any, **_options: Any) -> None:
        jobs.append(job)
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "launch", launched)
    done = CliRunner().invoke(main, ["run", str(plan), "--model", "llama-tiny", "--dtype", name, "--device", "cpu"])
    assert done.exit_code == 130, done.output
    assert [job.dtype for job in jobs] == [DTYPES[name]]
