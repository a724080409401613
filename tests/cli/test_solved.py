"""The commands with the real solver, on examples that are solved within seconds."""

import json
import subprocess
import sys

import pytest

from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_file import read_plan_file
from evenflow.simulate import simulate
from evenflow.units import MEGABYTE, milliseconds
from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "llama2_70b.json"


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_written_plan_is_what_the_figures_say(folder, evenflow, chunks):
    result = evenflow(
        "plan", EXAMPLE, "--ranks", 4, "--microbatches", 8, "--chunks", chunks, "--memory", "56GB",
        "--time-limit", 5, "--json", "plan.json", "--svg", "plan.svg",
    )  # fmt: skip
    assert result.exit_code == 0
    written = json.loads((folder / "plan.json").read_text())
    simulation = simulate(read_layer_file(EXAMPLE), read_plan_file("plan.json"))
    assert written["makespan_ms"] == milliseconds(simulation.makespan_ns)
    assert written["lower_bound_ms"] <= written["makespan_ms"]
    assert written["peak_memory_mb"] == [peak / MEGABYTE for peak in simulation.peak_memory_bytes]
    assert max(simulation.peak_memory_bytes) <= 56 * 2**30
    assert (folder / "plan.svg").read_text().startswith("<svg")
    again = evenflow("simulate", EXAMPLE, "plan.json", "--memory", "56GB")
    assert f"one step takes {written['makespan_ms']:,.3f} ms" in again.stdout


def test_the_smallest_limit_that_is_named_will_do(folder, evenflow):
    sizes = ("--ranks", 2, "--microbatches", 4, "--time-limit", 5)
    refused = evenflow("plan", "tiny.json", *sizes, "--memory", "100MB", "--json", "no.json")
    assert refused.exit_code == 3
    smallest = json.loads((folder / "no.json").read_text())["smallest_limit_mb"]
    assert evenflow("plan", "tiny.json", *sizes, "--memory", f"{smallest}MB").exit_code == 0
    assert evenflow("plan", "tiny.json", *sizes, "--memory", f"{smallest - 1}MB").exit_code == 3


def test_a_shorter_neighbour_is_named_and_written(folder, evenflow):
    request = ("plan", EXAMPLE, "--ranks", 4, "--microbatches", 8, "--chunks", 2, "--less-memory", "--memory", "56GB")
    result = evenflow(*request, "--time-limit", 20, "--json", "plan.json")
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("shorter: "))
    written = json.loads((folder / "plan.json").read_text())
    best = written["neighbours"][0]
    assert best["makespan_ms"] < written["makespan_ms"]
    assert max(best["peak_memory_mb"]) <= 56 * 1024
    assert f"--chunks {best['chunks']} takes {best['makespan_ms']:,.1f} ms" in line
    assert written["same_without_limit"] is False
    assert {(each["schedule"], each["chunks"]) for each in written["neighbours"]} >= {("interleaved", 2), ("1f1b", 1)}
    quiet = evenflow(*request, "--time-limit", 5, "--json", "plan.json", "--quiet")
    assert "shorter" not in quiet.output
    assert "neighbours" not in json.loads((folder / "plan.json").read_text())


@pytest.mark.processes
def test_the_balancers_command(folder):
    (folder / "layers").mkdir()
    (folder / "tiny.json").rename(folder / "layers" / "tiny.json")
    command = [sys.executable, str(ROOT / "run_pipeline_balance.py"), "-m", "tiny", "-s", "2", "-mb", "2", "-t", "5"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.startswith("To put in yaml configuration:\n")
    assert "\n    offset: [[" in result.stdout
    assert "\nmemory_binds: " in result.stdout
    assert "total_time: 18.000 ms" in result.stdout  # by hand: 2 + 2 and 3 + 1 layers 18 ms, 1 + 3 layers 21 ms
    assert (folder / "output" / "result.svg").exists()


def test_the_recommended_plan_is_never_longer_than_a_naive_one_that_fits(folder, evenflow):
    result = evenflow(
        "compare", EXAMPLE, "--ranks", 4, "--microbatches", 8, "--memory", "80GB", "--time-limit", 5, "--json", "c.json"
    )
    assert result.exit_code == 0
    assert "\nno memory limit binds: " in result.stdout
    written = json.loads((folder / "c.json").read_text())
    fitting = [plan for plan in written.values() if max(plan["peak_memory_mb"]) <= 80 * 1024]
    assert len(fitting) == 3
    assert written["recommended"]["makespan_ms"] == min(plan["makespan_ms"] for plan in fitting)
