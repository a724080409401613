"""``evenflow plan --target``: only what a framework runs, with the proof for that, and its own text to paste."""

import json
from dataclasses import replace

import pytest

from evenflow import solve
from evenflow.errors import InputError, Interrupted
from evenflow.profiles.plan_file import read_plan_file
from evenflow.targets import registry
from evenflow.targets.refusal import refusal
from tests.cli.conftest import files_in
from tests.cli.verbs.targets import EXAMPLE, UNCHECKED

pytestmark = pytest.mark.usefixtures("targets")
SIZES = ("--ranks", 2, "--microbatches", 4, "--time-limit", 5)
OWN = "# example\nstages = 1\nlayers = 4\nfull = 4\nmicrobatches = 1\n"


@pytest.mark.parametrize("chunks", [(), ("--chunks", 1), ("--chunks", 2), ("--schedule", "1f1b")])
def test_a_plan_that_the_framework_runs(folder, evenflow, chunks):
    result = evenflow(
        "plan", "tiny.json", *SIZES, *chunks, "--memory", "235MB", "--target", "example", "--json", "plan.json"
    )
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "plan.json").read_text())
    assert (written["target"], written["target_version"]) == ("example", "2.0")
    assert written["status"] == "optimal"
    assert "elsewhere" not in written
    plan = read_plan_file(folder / "plan.json")
    assert refusal(plan, EXAMPLE.abilities("2.0"), title="Example") is None
    assert "that Example can run is shorter than" in result.stdout
    assert "Example 2.0: checked with example 2.1\n\nsettings:\n# version 2.0\nstages = 2\n" in result.stdout
    assert "yaml configuration" not in result.stdout
    exported = evenflow("export", "plan.json", "--to", "example")
    assert "exact: Example runs the plan as it is" in exported.stdout
    if chunks:
        assert plan.num_chunks == (chunks[1] if chunks[0] == "--chunks" else 1)
        assert "best of all" not in result.stdout
    else:
        assert "best of all, to 2 parts in a million: no plan of these" in result.stdout
        assert "the best that" not in result.stdout


def test_an_older_version_recomputes_nothing(folder, evenflow):
    old = evenflow(
        "plan", "tiny.json", *SIZES, "--chunks", 1, "--memory", "235MB", "--target", "example", "--version-of", "1.0"
    )
    assert old.exit_code == 3
    assert "infeasible: no plan" in old.stderr


def test_what_could_be_had_elsewhere_is_said_with_best(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--schedule", "best", "--target", "unchecked", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("elsewhere: ")]
    assert line.endswith("% shorter")
    written = json.loads((folder / "plan.json").read_text())
    assert written["elsewhere"]["makespan_ms"] < written["makespan_ms"]
    assert f"{written['elsewhere']['makespan_ms']:,.3f} ms" in line
    assert "Unchecked 1: written to the documentation, not run" in result.stdout


def test_quiet_prints_only_what_is_pasted(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--target", "unchecked", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "all:\nall\n", "")


def test_a_file_of_the_framework_says_what_is_planned_for(folder, evenflow):
    (folder / "run.conf").write_text(OWN)
    result = evenflow("plan", "tiny.json", *SIZES, "--chunks", 1, "--apply", "run.conf", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "that Example can run is shorter than" in result.stdout
    assert json.loads((folder / "plan.json").read_text())["target"] == "example"
    assert "stages = 2\nlayers = 2,2\nfull = 0\nmicrobatches = 4\n" in (folder / "run.planned.conf").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--target", "exampel"), "--target must be one of example, mindformers, unchecked"),
        (("--target", "unchecked", "--chunks", 2), "--chunks must be at most 1 for Unchecked, got 2"),
        (("--target", "unchecked", "--schedule", "zb-h1"), "--schedule must be one of 1f1b for Unchecked, got 'zb-h1'"),
        (("--target", "unchecked", "--schedule", "search"), "--schedule must be one of 1f1b for Unchecked"),
        (("--target", "unchecked", "--schedule", "search", "--split-backward"), "--schedule must be one of 1f1b"),
        (("--target", "unchecked", "--split-backward"), "--split-backward must come with --schedule search"),
        (("--target", "unchecked", "--sequence-splits", 2), "--sequence-splits must be 1 for Unchecked"),
        (("--target", "example", "--mix", "any"), "--mix must not be given for Example"),
        (("--target", "example", "--group-size", 3), "--group-size must be best for Example, or not be given"),
        (("--target", "example", "--version-of", "0.9"), "--version-of must be a version of Example from 1.0 on"),
        (("--version-of", "1.0"), "--version-of must come with --target"),
        (("--apply", "tiny.json"), "tiny.json must be a configuration of a framework that is known"),
        (("--target", "unchecked", "--apply", "tiny.json"), "--target must be one of example, mindformers"),
        (("--target", "example", "--apply", "tiny.json"), "tiny.json must have the key stages"),
    ],
)  # fmt: skip
def test_what_contradicts_the_framework_is_one_message(folder, evenflow, arguments, says):
    result = evenflow("plan", "tiny.json", *SIZES, *arguments, "--json", "plan.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: {says}")
    assert files_in(folder) == {"tiny.json"}


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_a_plan_that_cannot_be_written_is_printed_all_the_same(folder, evenflow, monkeypatch, quiet):
    def refuse(*_: object) -> None:
        raise InputError(value=4, rule="must be odd", place="layers")

    monkeypatch.setattr(registry, "all_targets", lambda: {"unchecked": replace(UNCHECKED, write=refuse)})
    result = evenflow("plan", "tiny.json", *SIZES, "--target", "unchecked", *quiet)
    assert result.exit_code == 0
    assert "note: no block for Unchecked; layers must be odd, got 4" in result.stderr
    assert bool(quiet) != ("that Unchecked can run is shorter than" in result.stdout)


def test_an_interruption_of_the_quick_look_keeps_the_answer(folder, evenflow, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted

    monkeypatch.setattr(solve, "solve_best", interrupted)
    result = evenflow("plan", "tiny.json", *SIZES, "--schedule", "best", "--target", "unchecked", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "elsewhere" not in result.stdout
    assert read_plan_file(folder / "plan.json").schedule == "1f1b"
