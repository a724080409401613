"""A plan with an order of its own is run in this very order: one that was searched, or made for a family's times."""

import json
from pathlib import Path

import pytest

from evenflow.profiles.plan_file import read_plan_file
from evenflow.schedule import schedule_of
from tests_torch.run.warm_ranks import start_warm

pytestmark = pytest.mark.processes

UNEVEN = {
    "name": "uneven",
    "layers_description": [
        {"name": "Embedding", "type": "HEAD", "nb_layer": 1, "time": 0.2, "memory_parameter": 70},
        {
            "name": "Layer", "type": "BODY", "nb_layer": 6, "time": 1.0,
            "memory_parameter": 50, "memory_activation": 60, "memory_recompute": 9,
        },
        {"name": "Output", "type": "TAIL", "nb_layer": 1, "time": 0.9, "memory_parameter": 80},
    ],
}  # fmt: skip
"""A model for which no family has the best order."""
SEARCH = ("--schedule", "search")


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        (("--ranks", 2, "--chunks", 2, "--memory", "600MB"), SEARCH),
        (("--ranks", 2, "--chunks", 1, "--memory", "500MB"), (*SEARCH, "--split-backward")),
        (("--ranks", 2), ("--schedule", "zb-h1", "--layers-per-rank", "4,2")),
        pytest.param(("--ranks", 4, "--memory", "500MB"), (*SEARCH, "--split-backward"), marks=pytest.mark.slow),
        pytest.param(("--ranks", 3, "--chunks", 2, "--memory", "400MB"), SEARCH, marks=pytest.mark.slow),
    ],
)
def test_the_plan_trains_what_the_unsplit_model_does(
    folder: Path, evenflow, monkeypatch, sizes: tuple[object, ...], options: tuple[str, ...]
):
    (folder / "uneven.json").write_text(json.dumps(UNEVEN), encoding="utf-8")
    planned = evenflow(
        "plan", "uneven.json", *sizes, "--microbatches", 5, "--time-limit", 2, "--reproducible", *options,
        "--json", "plan.json",
    )  # fmt: skip
    assert planned.exit_code == 0, planned.stderr
    plan = read_plan_file(folder / "plan.json")
    assert plan.order
    start_warm(monkeypatch)
    done = evenflow(
        "run", "plan.json", "--model", "llama-tiny", "--steps", 3, "--dtype", "float64", "--verify", "--device", "cpu",
        "--timeline", "timeline.json", "--seq", 8, "--hidden", 16, "--heads", 2, "--vocab", 32,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "verification: losses and gradients agree" in done.stdout
    timeline = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))
    order = schedule_of(plan)
    found = [[str(action) for action in order.order(rank)] for rank in range(plan.num_ranks)]
    assert [[row[0] for row in rank] for rank in timeline["measured"]] == found
