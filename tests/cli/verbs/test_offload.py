"""Activations that the host keeps, through the commands."""

import json
from itertools import pairwise

import pytest

from evenflow.profiles.layer_file import read_layer_file

FOUR = ("--ranks", 4, "--microbatches", 8, "--time-limit", 20)
LINK = ("--offload", "--host-link", "50GBps")


def host_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "the host" in line]


def limits(folder, evenflow) -> int:
    """Whole megabytes that the best plan without the host just does not have."""
    result = evenflow("plan", "tiny.json", *FOUR, "--mix", "any", "--json", "free.json")
    assert result.exit_code == 0, result.stderr
    peaks = json.loads((folder / "free.json").read_text())["peak_memory_mb"]
    return int(max(peaks)) - 1


def test_what_is_moved_is_said_written_drawn_and_simulated_again(folder, evenflow):
    limit = ("--memory", f"{limits(folder, evenflow)}MB", "--mix", "any")
    files = ("--json", "plan.json", "--svg", "plan.svg", "--html", "plan.html", "--trace", "trace.json")
    result = evenflow("plan", "tiny.json", *FOUR, *limit, *LINK, *files)
    assert result.exit_code == 0, result.stderr
    kept, without = host_lines(result.stdout)
    assert kept.startswith("the host keeps for ranks")
    assert "without the host the step is" in without
    assert "% longer" in without
    written = json.loads((folder / "plan.json").read_text())
    assert any(map(any, written["recompute"]["offload"]))
    assert len(written["host"]["held_mb"]) == len(written["host"]["busy"]) == 4
    assert max(written["host"]["held_mb"]) > 0
    assert written["makespan_without_host_ms"] >= written["makespan_ms"]
    assert written["network"]["host_link"]["bytes_per_s"] == 50 * 10**9
    assert 'class="copy-to-the-host"' in (folder / "plan.svg").read_text()
    again = evenflow("simulate", "plan.json", "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    simulated = json.loads((folder / "again.json").read_text())
    assert simulated["makespan_ms"] == written["makespan_ms"]
    assert simulated["peak_memory_mb"] == written["peak_memory_mb"]
    assert simulated["host"] == written["host"]


def test_waits_for_copies_are_a_cause_of_their_own(folder, evenflow):
    plan = {
        "ranks": 4, "chunks": 1, "microbatches": 8, "sequence_splits": 1, "schedule": "1f1b",
        "layers": [[1, 1, 1, 1]], "recompute": {"offload": [[1, 1, 0, 0]]},
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    slow = ("--offload", "--host-link", "2GBps", "--p2p-latency", "1ms")
    files = ("--json", "slow.json", "--svg", "slow.svg")
    result = evenflow("simulate", "tiny.json", "plan.json", *slow, *files)
    assert result.exit_code == 0, result.stderr
    causes, of_all = next(
        (line, below) for line, below in pairwise(result.stdout.splitlines()) if "imbalance" in line.split()
    )
    assert causes.split() == ["all", "fill/drain", "imbalance", "recompute", "p2p", "host", "copies"]
    bubble = json.loads((folder / "slow.json").read_text())["bubble"]
    parts = [bubble[cause] for cause in ("ideal", "imbalance", "recompute", "communication", "host_copies")]
    assert min(parts[3:]) > 0
    assert sum(parts) == pytest.approx(bubble["real"])
    assert of_all.split()[-6:] == [f"{part:.4f}" for part in (bubble["real"], *parts)]
    assert f"host copies {100 * parts[-1]:.1f} %" in (folder / "slow.svg").read_text()
    del plan["recompute"]["offload"]
    (folder / "stays.json").write_text(json.dumps(plan))
    stays = evenflow("simulate", "tiny.json", "stays.json", *slow, "--json", "stayed.json")
    assert stays.exit_code == 0, stays.stderr
    assert "host copies" not in stays.stdout
    assert "host_copies" not in json.loads((folder / "stayed.json").read_text())["bubble"]


def test_compared_plans_have_a_column_for_copies_where_any_moves_something(folder, evenflow):
    limit = f"{limits(folder, evenflow)}MB"
    result = evenflow("compare", "tiny.json", *FOUR, "--memory", limit, *LINK, "--json", "plans.json")
    assert result.exit_code == 0, result.stderr
    header = next(line for line in result.stdout.splitlines() if line.startswith("plan "))
    assert "recompute  host copies  peak MB" in header
    plans = json.loads((folder / "plans.json").read_text())
    assert "host_copies" in plans["recommended"]["bubble"]
    assert "host_copies" not in plans["naive_no_recomp"]["bubble"]


def test_fetches_are_chosen_and_the_proof_is_over_all_of_them(folder, evenflow):
    limit = ("--memory", f"{limits(folder, evenflow)}MB", "--mix", "any")
    result = evenflow("plan", "tiny.json", *FOUR, *limit, *LINK, "--prefetch", "best", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "with any of 9 ways to fetch from the host" in result.stdout
    written = json.loads((folder / "plan.json").read_text())
    tried = {
        (1, 1, None),
        (2, 1, None),
        (3, 1, None),
        (1, 1, 2),
        (1, 1, 3),
        (2, 1, 3),
        (2, 2, None),
        (3, 3, None),
        (0, 1, 1),
    }
    ways = {(entry["ahead"], entry["behind"], entry["buffers"]) for entry in written["alternatives"]}
    assert ways < tried
    assert len(ways) == 8
    alone = [
        evenflow("plan", "tiny.json", *FOUR, *limit, *LINK, "--prefetch", ahead, *few, "--json", f"{number}.json")
        for number, (ahead, few) in enumerate(
            (
                (1, ()),
                (2, ()),
                (3, ()),
                *((ahead, ("--host-buffers", count)) for ahead, count in ((1, 2), (1, 3), (2, 3))),
                *((count, ("--host-behind", count)) for count in (2, 3)),
                (0, ("--host-buffers", 1)),
            )
        )
    ]
    assert all(each.exit_code == 0 for each in alone)
    steps = [json.loads((folder / f"{number}.json").read_text())["makespan_ms"] for number in range(len(alone))]
    assert written["makespan_ms"] == min(steps)


def test_numbers_of_cells_are_simulated_written_and_read(folder, evenflow):
    def written(*options: object) -> dict:
        plan = ("--microbatches", 8, "--layers", "1,1,1,1", "--recompute", "offload=1,1,0,0")
        result = evenflow("simulate", "tiny.json", *plan, *LINK, *options, "--json", "step.json")
        assert result.exit_code == 0, result.stderr
        step = json.loads((folder / "step.json").read_text())
        again = evenflow("simulate", "step.json", "--json", "again.json")
        assert again.exit_code == 0, again.stderr
        assert json.loads((folder / "again.json").read_text())["peak_memory_mb"] == step["peak_memory_mb"]
        return step

    alike, early = written("--prefetch", 1), written("--prefetch", 3)
    assert written("--prefetch", "1,1,1,1")["peak_memory_mb"] == alike["peak_memory_mb"]
    mixed = written("--prefetch", "3,1,2,2")
    assert mixed["network"]["host_link"]["ahead"] == [[3, 1, 2, 2]]
    assert mixed["peak_memory_mb"] == [*early["peak_memory_mb"][:1], *alike["peak_memory_mb"][1:]]
    assert mixed["peak_memory_mb"][0] > alike["peak_memory_mb"][0]


def test_no_framework_gets_numbers_by_cell(folder, evenflow):
    limit = ("--memory", f"{limits(folder, evenflow)}MB", "--target", "mindformers", "--prefetch", "best")
    result = evenflow("plan", "tiny.json", *FOUR, *limit, *LINK, "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "plan.json").read_text())
    assert isinstance(written["network"]["host_link"]["ahead"], int)
    assert "bound_by_cell_ms" not in written
    assert "of its own for" not in result.stdout


def test_a_search_for_the_order_of_work_knows_copies(folder, evenflow):
    sizes = (*FOUR[:4], "--time-limit", 6, "--chunks", 2, "--memory", "125MB", "--mix", "any", *LINK)
    steps = []
    for name, search in (
        ("family", ()),
        ("search", ("--schedule", "search", "--split-backward")),
        ("fetches", ("--schedule", "search", "--split-backward", "--prefetch", "best")),
    ):
        result = evenflow("plan", "tiny.json", *sizes, *search, "--json", f"{name}.json")
        assert result.exit_code == 0, result.stderr
        written = json.loads((folder / f"{name}.json").read_text())
        assert max(written["peak_memory_mb"]) <= 125
        assert any(map(any, written["recompute"]["offload"]))
        steps.append(written["makespan_ms"])
        again = evenflow("simulate", f"{name}.json", "--json", f"{name}_again.json")
        assert again.exit_code == 0, again.stderr
        simulated = json.loads((folder / f"{name}_again.json").read_text())
        assert simulated["makespan_ms"] == written["makespan_ms"]
        assert simulated["peak_memory_mb"] == written["peak_memory_mb"]
    assert max(steps[1:]) < steps[0]


def test_a_layer_file_says_what_may_be_moved(folder, evenflow):
    model = json.loads((folder / "tiny.json").read_text())
    for entry in model["layers_description"]:
        if entry["type"] == "BODY":
            entry["recompute_kinds"] = {"away": {"memory": 0, "offloaded": entry["memory_activation"]}}
    (folder / "unlinked.json").write_text(json.dumps(model))
    refused = evenflow("plan", "unlinked.json", *FOUR)
    assert refused.exit_code == 2
    assert "must come with a link to the host" in refused.stderr
    model["host_link"] = {"bytes_per_s": 10**10, "one_engine": True, "sharers": 2, "ahead": 2, "behind": 3}
    (folder / "linked.json").write_text(json.dumps(model))
    network = read_layer_file("linked.json")
    assert (network.host_link.one_engine, network.host_link.sharers, network.host_link.ahead) == (True, 2, 2)
    assert network.runs[0].layer.modes["away"].offloaded_bytes == network.runs[0].layer.modes["none"].activation_bytes
    planned = evenflow("plan", "linked.json", *FOUR, "--host-link", "25GBps", "--json", "plan.json")
    assert planned.exit_code == 0, planned.stderr
    link = json.loads((folder / "plan.json").read_text())["network"]["host_link"]
    assert link == {"bytes_per_s": 25 * 10**9, "one_engine": True, "sharers": 2, "ahead": 2, "behind": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--offload",), "--offload must come with --host-link"),
        (("--host-link", "50GBps"), "--host-link must come with --offload: no recompute kind of the layers moves"),
        (("--prefetch", 2), "--prefetch must come with --offload"),
        (("--host-behind", 2), "--host-behind must come with --offload"),
        ((*LINK, "--host-behind", 0), "--host-behind must be an integer from 1 to 1,000, got 0"),
        (("--rank-host-sharers", "0:2"), "--rank-host-sharers must come with layers that move something to the host"),
        (
            (*LINK, "--prefetch", "soon"),
            "--prefetch must be an integer from 0 to 1,000, one for each rank, or best, got 'soon'",
        ),
        (
            (*LINK, "--prefetch", "1,2"),
            "must have one row, or one for each of 1 chunks, with a number for each of the 4",
        ),
        ((*LINK, "--prefetch", "1", "--prefetch", "2"), "must have one row, or one for each of 1 chunks"),
        ((*LINK, "--prefetch", "best", "--prefetch", "2"), "--prefetch must be given once: it chooses the numbers"),
        (("--prefetch", "1,2,1,1"), "--prefetch must come with --offload"),
    ],
)
def test_what_makes_no_sense_is_refused(folder, evenflow, options, message):
    result = evenflow("plan", "tiny.json", *FOUR, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_ranks_share_their_links_among_other_numbers_of_devices(folder, evenflow):
    plan = {
        "ranks": 4, "chunks": 1, "microbatches": 8, "sequence_splits": 1, "schedule": "1f1b",
        "layers": [[1, 1, 1, 1]], "recompute": {"offload": [[1, 1, 0, 0]]},
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    busy = []
    for options in (("--host-sharers", 4), ("--host-sharers", 4, "--rank-host-sharers", "0:2"), ()):
        result = evenflow(
            "simulate", "tiny.json", "plan.json", "--offload", "--host-link", "40GBps", *options, "--json", "s.json",
            "--overwrite",
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
        written = json.loads((folder / "s.json").read_text())
        times = [share * written["makespan_ms"] for share in written["host"]["busy"]]
        busy.append(times)
        assert ("links to the host among 2 devices" in result.stdout) is ("--rank-host-sharers" in options)
    assert busy[0][:2] == pytest.approx([4 * time for time in busy[2][:2]], rel=1e-6)
    assert busy[1][:2] == pytest.approx([2 * busy[2][0], 4 * busy[2][1]], rel=1e-6)


@pytest.mark.parametrize("verb", ["compare", "simulate"])
def test_only_plan_tries_several_fetches(folder, evenflow, verb):
    result = evenflow(verb, "tiny.json", *FOUR[:4], *LINK, "--prefetch", "best")
    assert result.exit_code == 2
    assert "--prefetch must be an integer from 0 to 1,000: only evenflow plan tries several" in result.stderr
