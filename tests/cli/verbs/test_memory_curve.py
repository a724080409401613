import json
from itertools import pairwise
from pathlib import Path

import pytest

from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_file import parse_plan
from evenflow.simulate import simulate


@pytest.fixture
def plan_file(folder: Path, evenflow) -> Path:
    """A plan of eight layers on two ranks, of which four recompute."""
    (folder / "eight.json").write_text(
        json.dumps(
            {
                "name": "eight",
                "layers_description": [
                    {
                        "name": "b",
                        "type": "BODY",
                        "nb_layer": 8,
                        "time": 3,
                        "memory_parameter": 100,
                        "memory_activation": 50,
                        "memory_recompute": 10,
                    }
                ],
            }
        )
    )
    sizes = ("--ranks", 2, "--microbatches", 8, "--memory", "700MB")
    result = evenflow("plan", "eight.json", *sizes, "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    return folder / "plan.json"


@pytest.mark.usefixtures("plan_file")
def test_every_point_is_a_plan_that_needs_what_it_says(evenflow) -> None:
    result = evenflow("memory-curve", "plan.json", "--json", "curve.json", "--html", "curve.html")
    assert result.exit_code == 0, result.stderr
    curve = json.loads(Path("curve.json").read_text())
    network = parse_layer_file(json.dumps(curve["network"]), place="curve.json")
    for point in curve["points"]:
        again = simulate(network, parse_plan(json.dumps(point), place="curve.json"))
        assert max(again.peak_memory_bytes) / 2**20 == point["memory_limit_mb"]
        assert again.makespan_ns / 1e6 == point["makespan_ms"]
        assert f"{point['memory_limit_mb']:,.0f}  {point['makespan_ms']:,.3f}" in result.stdout
    for less, more in pairwise(curve["points"]):
        assert less["memory_limit_mb"] < more["memory_limit_mb"]
        assert less["makespan_ms"] > more["makespan_ms"]
    assert curve["is_whole"]
    assert curve["least_memory_mb"] == curve["points"][0]["memory_limit_mb"]
    assert "the curve is whole" in result.stdout
    planned = json.loads(Path("plan.json").read_text())
    assert planned["makespan_ms"] == curve["makespan_ms"]
    assert [point["makespan_ms"] for point in curve["points"] if point["memory_limit_mb"] <= 700][-1] == planned[
        "makespan_ms"
    ]
    # A point of the page leads to a timeline of its own, and the plan's own point to the first.
    page = Path("curve.html").read_text()
    others = min(4, len(curve["points"]) - 1)
    assert [f'<a href="#plan={number}">' in page for number in range(others + 2)] == [True] * (others + 1) + [False]
    assert page.count('<section id="timeline-') == others + 1


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"memory_limit_mb": None}, (), "must have a memory limit"),
        ({}, ("--memory", "300MB"), "must be a limit that the plan keeps to"),
        ({"network": None}, (), "must hold its model"),
        ({}, ("--version-of", "0.19"), "must come with --target"),
    ],
)
def test_what_has_no_curve_is_refused(plan_file: Path, evenflow, change, options, words) -> None:
    fields = json.loads(plan_file.read_text()) | change
    fields = {key: value for key, value in fields.items() if value is not None or key != "network"}
    (plan_file.parent / "other.json").write_text(json.dumps(fields))
    result = evenflow("memory-curve", "other.json", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
