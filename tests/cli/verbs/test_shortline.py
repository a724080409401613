"""The framework of `examples/joining` is one: it is written for, planned for and priced."""

import json
import tomllib
from typing import Any

import pytest

from evenflow.targets import registry
from evenflow.targets.target import Target
from tests.paths import EXAMPLES

SIZES = ("--ranks", 2, "--microbatches", 2, "--chunks", 1, "--time-limit", 5)


@pytest.fixture
def shortline(monkeypatch: pytest.MonkeyPatch) -> Target:
    source = (EXAMPLES / "joining" / "target" / "shortline.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(source, "shortline.py", "exec"), names)
    target = names["TARGET"]
    assert isinstance(target, Target)
    monkeypatch.setattr(registry, "all_targets", lambda: {"shortline": target})
    return target


def test_it_is_planned_for_and_exact(shortline, folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "230MB", "--target", "shortline", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "that Shortline can run is shorter than" in result.stdout
    exported = evenflow("export", "plan.json", "--to", "shortline", "--json", "out.json")
    assert "exact: Shortline runs the plan as it is" in exported.stdout
    assert "Shortline 1.0: written to the documentation, not run" in exported.stdout
    (piece,) = json.loads((folder / "out.json").read_text())["pieces"]
    written = tomllib.loads(piece["text"])
    plan = json.loads((folder / "plan.json").read_text())
    assert written["layers"] == plan["layers"][0]
    assert written["recompute"] == [count > 0 for count in plan["recompute"]["full"][0]]
    assert (written["microbatches"], written["order"]) == (2, "1f1b")


def test_what_it_cannot_run_is_priced(shortline, folder, evenflow):
    made = evenflow(
        "simulate", "tiny.json", "--microbatches", 2, "--layers", "2,2", "--recompute", "full=1,0", "--memory", "230MB",
        "--json", "plan.json",
    )  # fmt: skip
    assert made.exit_code == 0
    result = evenflow("export", "plan.json", "--to", "shortline")
    assert "recompute is all or nothing for each stage on Shortline: " in result.stdout
    assert "recompute = [true, false]" in result.stdout
    assert evenflow("plan", "tiny.json", *SIZES, "--schedule", "zb-h1", "--target", "shortline").exit_code == 2
