"""Activations that other ranks keep, through the commands."""

import json

import numpy as np
import pytest

from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind
from evenflow.simulate import simulate

FOUR = ("--ranks", 4, "--microbatches", 8, "--time-limit", 20)
LINK = ("--offload", "--host-link", "50GBps")
PAIRS = (*LINK, "--offload-to", "pairs", "--peer-link", "300GBps")


@pytest.fixture
def limit(folder, evenflow) -> str:
    """What the first rank does not have, and the last does; ``tiny.json`` has two layers for each rank then."""
    model = json.loads((folder / "tiny.json").read_text())
    for entry in model["layers_description"]:
        if entry["type"] == "BODY":
            entry["nb_layer"] *= 2
    (folder / "tiny.json").write_text(json.dumps(model))
    result = evenflow("simulate", "tiny.json", *FOUR[:4], "--layers", "2,2,2,2", "--json", "even.json")
    assert result.exit_code == 0, result.stderr
    peaks = json.loads((folder / "even.json").read_text())["peak_memory_mb"]
    return f"{int(max(peaks)) - 1}MB"


@pytest.fixture
def written(folder, evenflow, limit) -> dict[str, object]:
    """The plan with pairs of ranks, in ``plan.json``."""
    options = ("--memory", limit, "--mix", "any", "--layers-per-rank", "2,2,2,2", "--json", "plan.json")
    result = evenflow("plan", "tiny.json", *FOUR, *options, *PAIRS, "--svg", "plan.svg", "--html", "plan.html")
    assert result.exit_code == 0, result.stderr
    assert "ranks keep for others, as a part of their peaks: rank 3 " in result.stdout
    assert "without other ranks the step is" in result.stdout
    assert "next: for a framework, plan without --offload-to" in result.stdout
    fields = json.loads((folder / "plan.json").read_text())
    assert isinstance(fields, dict)
    return fields


def test_what_ranks_keep_is_said_written_and_simulated_again(folder, evenflow, written):
    assert written["host"]["keepers"] == [3, 2, None, None]
    assert written["host"]["held_mb"][0] == 0
    assert written["host"]["pool_mb"][0] > 0
    assert written["network"]["host_link"]["keepers"] == [3, 2, None, None]
    assert written["network"]["host_link"]["keeper_bytes_per_s"] == 300 * 10**9
    assert written["makespan_without_host_ms"] > written["makespan_ms"]
    assert max(written["peak_memory_mb"]) <= written["memory_limit_mb"]
    again = evenflow("simulate", "plan.json", "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    simulated = json.loads((folder / "again.json").read_text())
    for key in ("makespan_ms", "peak_memory_mb", "host"):
        assert simulated[key] == written[key]
    host = evenflow("simulate", "tiny.json", "plan.json", *LINK, "--json", "host.json")
    assert host.exit_code == 0, host.stderr
    moved = json.loads((folder / "host.json").read_text())
    more = [peak - other for peak, other in zip(written["peak_memory_mb"], moved["peak_memory_mb"], strict=True)]
    assert more == pytest.approx([0, 0, written["host"]["pool_mb"][1], written["host"]["pool_mb"][0]])


def test_the_page_shows_what_is_set_aside(folder, written):
    planned = parse_plan_file((folder / "plan.json").read_text(), place="plan.json")
    simulation = simulate(planned.network, planned.plan, communication=planned.communication)
    memory = shown_timeline(simulation.timeline, name="plan", kind=Kind.PLAN, costs=simulation.costs).memory
    schedule = simulation.timeline.schedule
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        own = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        changes = np.cumsum(np.stack((memory.changes[own], memory.end_changes[own]), axis=1).reshape(-1))
        assert memory.static_bytes[rank] + memory.working_bytes[rank] + changes.max() == peak
    assert any(simulation.pool_bytes)


@pytest.mark.parametrize("target", ["megatron", "mindformers", "torchtitan"])
def test_no_framework_has_ranks_that_keep_activations_of_others(evenflow, written, target):
    result = evenflow("export", "plan.json", "--to", target)
    assert result.exit_code == 2
    assert "activations must not wait on other ranks" in result.stderr
    assert "plan without --offload-to" in result.stderr
    for keepers in (PAIRS, (*LINK, "--offload-to", "best")):
        planned = evenflow("plan", "tiny.json", *FOUR, *keepers, "--target", target)
        assert planned.exit_code == 2
        assert "plan without --offload-to" in planned.stderr


def test_a_plan_that_moves_nothing_is_exported_all_the_same(folder, evenflow):
    result = evenflow("plan", "tiny.json", *FOUR, *PAIRS, "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert not any(json.loads((folder / "plan.json").read_text())["host"].get("pool_mb", ()))
    assert "next: evenflow export plan.json" in result.stdout
    exported = evenflow("export", "plan.json", "--to", "megatron")
    assert exported.exit_code == 0, exported.stderr


def test_a_block_of_another_framework_is_left_out(evenflow, written):
    options = ("--memory", f"{written['memory_limit_mb']}MB", "--mix", "any", "--layers-per-rank", "2,2,2,2")
    result = evenflow("plan", "tiny.json", *FOUR, *options, *PAIRS, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "note: no block for MindFormers; activations must not wait on other ranks" in result.stderr


def test_the_best_keepers_are_chosen_and_the_proof_is_over_all_of_them(folder, evenflow, limit):
    options = ("--memory", limit, "--mix", "any", "--layers-per-rank", "2,2,2,2")
    slow = ("--offload", "--host-link", "1GBps", "--peer-link", "300GBps")
    result = evenflow("plan", "tiny.json", *FOUR, *options, *slow, "--offload-to", "best", "--json", "best.json")
    assert result.exit_code == 0, result.stderr
    assert "ways to move activations" in result.stdout
    table = result.stdout.splitlines()
    assert any("kept by" in line for line in table)
    assert any("0:3,1:2" in line for line in table)
    written = json.loads((folder / "best.json").read_text())
    assert {tuple(entry.get("keepers", ())) for entry in written["alternatives"]} < {
        (), (3, 2, None, None), (3, 3, None, None)
    }  # fmt: skip
    steps = []
    for number, keepers in enumerate(((), ("--offload-to", "pairs"), ("--offload-to", "0-1:3"))):
        ways = slow if keepers else slow[:3]
        alone = evenflow("plan", "tiny.json", *FOUR, *options, *ways, *keepers, "--json", f"{number}.json")
        assert alone.exit_code == 0, alone.stderr
        steps.append(json.loads((folder / f"{number}.json").read_text())["makespan_ms"])
    assert written["makespan_ms"] == min(steps) < steps[0]


def test_a_layer_file_says_which_ranks_keep_what(folder, evenflow):
    model = json.loads((folder / "tiny.json").read_text())
    for entry in model["layers_description"]:
        if entry["type"] == "BODY":
            entry["recompute_kinds"] = {"away": {"memory": 0, "offloaded": entry["memory_activation"]}}
    link = {"bytes_per_s": 10**10, "one_engine": False, "sharers": 1, "ahead": 1, "keepers": [3, None, None, None]}
    (folder / "kept.json").write_text(json.dumps({**model, "host_link": link}))
    assert read_layer_file("kept.json").host_link.keepers == (3, None, None, None)
    planned = evenflow("plan", "kept.json", *FOUR, "--peer-link", "1GBps", "--json", "plan.json")
    assert planned.exit_code == 0, planned.stderr
    kept = json.loads((folder / "plan.json").read_text())["network"]["host_link"]
    assert kept == {**link, "keeper_bytes_per_s": 10**9}
    for keepers, message in (
        ([1, None], "must be as many as there are ranks, 4"),
        ("pairs", "must be a list with a rank, or null for the host"),
        ([True, None, None, None], "must be a list with a rank, or null for the host"),
        ([0, None, None, None], "host_link.keepers must be another rank, from 0 to 3"),
    ):
        (folder / "kept.json").write_text(json.dumps({**model, "host_link": {**link, "keepers": keepers}}))
        refused = evenflow("plan", "kept.json", *FOUR)
        assert refused.exit_code == 2
        assert message in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--offload-to", "pairs"), "--offload-to must come with --offload"),
        ((*LINK, "--peer-link", "1GBps"), "--peer-link must come with --offload-to"),
        ((*LINK, "--offload-to", "0:0"), "--offload-to, the keeper of rank 0 must be another rank, from 0 to 3"),
        ((*LINK, "--offload-to", "0:4"), "--offload-to, the keeper of rank 0 must be another rank, from 0 to 3"),
        ((*LINK, "--offload-to", "0:3,1:0"), "the keeper of rank 1 must be a rank that keeps its own"),
        ((*LINK, "--offload-to", "0:last"), "--offload-to must be a rank, or pairs, or best, got 'last'"),
        ((*LINK, "--offload-to", "4:3"), "--offload-to must be of ranks from 0 to 3"),
    ],
)
def test_what_makes_no_sense_is_refused(evenflow, folder, options, message):
    result = evenflow("plan", "tiny.json", *FOUR, *options)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("verb", ["compare", "simulate"])
def test_only_plan_tries_several_keepers(folder, evenflow, verb):
    result = evenflow(verb, "tiny.json", *FOUR[:4], *LINK, "--offload-to", "best")
    assert result.exit_code == 2
    assert "--offload-to must name ranks, or be pairs: only evenflow plan tries several" in result.stderr


def test_a_search_for_an_order_refuses_keepers(folder, evenflow):
    refused = evenflow("plan", "tiny.json", *FOUR, *PAIRS, "--memory", "60GB", "--schedule", "search")
    assert refused.exit_code == 2
    assert "--schedule best" in refused.stderr


def test_one_rank_has_nobody_to_keep_for_it(folder, evenflow):
    refused = evenflow(
        "plan", "tiny.json", "--ranks", 1, "--microbatches", 8, "--memory", "1MB", *LINK, "--offload-to", "pairs"
    )
    assert refused.exit_code == 3
    assert "no plan with copies timed as here fits in 1 MB" in refused.stderr
