"""What is planned for a framework is written for it exactly, whichever it is; what is planned for none is priced."""

import json

import pytest

from evenflow.profiles.plan_file import read_plan_file
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from tests.cli.conftest import TINY

VERSIONS = [(target, version) for target in all_targets().values() for version in target.versions]
NAMES = [f"{target.name} {version}" for target, version in VERSIONS]


@pytest.fixture
def model(folder):
    (entry,) = TINY["layers_description"]
    ends = [{**entry, "type": kind, "nb_layer": 1, "time": 0.5} for kind in ("HEAD", "TAIL")]
    text = json.dumps({**TINY, "layers_description": [ends[0], {**entry, "nb_layer": 16}, ends[1]]})
    (folder / "model.json").write_text(text)


@pytest.mark.parametrize(("target", "version"), VERSIONS, ids=NAMES)
def test_what_is_planned_for_it_is_exact(model, folder, evenflow, target, version):
    of_version = ("--version-of", version)
    made = evenflow(
        "plan", "model.json", "--ranks", 4, "--microbatches", 8, "--memory", "700MB", "--time-limit", 0.3,
        "--target", target.name, *of_version, "--json", "plan.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    plan = read_plan_file(folder / "plan.json")
    assert refusal(plan, target.abilities(version), title=target.title) is None
    written = evenflow("export", "plan.json", "--to", target.name, *of_version, "-o", "out", "--json", "out.json")
    assert written.exit_code == 0, written.stderr
    assert f"exact: {target.title} runs the plan as it is" in written.stdout
    fields = json.loads((folder / "out.json").read_text())
    assert all(piece["text"].endswith("\n") and piece["title"] for piece in fields["pieces"])
    for piece in fields["pieces"]:
        assert piece["file_name"] is None or (folder / "out" / piece["file_name"]).is_file()
    again = evenflow("export", "plan.json", "--to", target.name, *of_version, "-o", "out", "--json", "out.json")
    assert again.exit_code == 0, again.stderr


PLANS = {
    "uneven": ("--layers", "3,5,5,3", "--recompute", "full=3,2,1,0"),
    "chunks": ("--layers", "2,2,2,2") * 2 + ("--recompute", "full=1,0,0,0", "--recompute", "full=0,0,0,0"),
    "a V": ("--layers", "1,2,2,2", "--layers", "2,3,2,2", "--schedule", "zbv"),
    "split backwards": ("--layers", "4,4,4,4", "--schedule", "zb-h1"),
}  # fmt: skip


@pytest.mark.parametrize("target", all_targets().values(), ids=all_targets())
@pytest.mark.parametrize("plan", PLANS)
def test_any_plan_is_exact_or_priced_or_refused_in_one_message(model, folder, evenflow, target, plan):
    made = evenflow("simulate", "model.json", "--microbatches", 8, *PLANS[plan], "--json", "plan.json")
    assert made.exit_code == 0, made.stderr
    result = evenflow("export", "plan.json", "--to", target.name, "--time-limit", 1)
    if result.exit_code == 2:
        assert target.title in result.stderr
        assert result.stderr.startswith("error: ")
        return
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    losses = [line for line in lines if line.startswith("  ") and (line.endswith("same peak") or ", peak " in line)]
    assert bool(losses) != any(line.startswith("exact: ") for line in lines)
