import json

import pytest

from evenflow.profiles.plan_file import parse_plan
from tests.cli.conftest import TINY

EVEN = ("--microbatches", 2, "--layers", "2,2")


def test_counts_on_the_command_line(folder, evenflow):
    limited = ("--memory", "225MB", "--json", "p.json")
    result = evenflow("simulate", "tiny.json", *EVEN, "--recompute", "full=1,0", *limited)
    assert result.exit_code == 0
    # Rank 0 runs F0 F1 B0 B1 with backwards of 5 ms: B0 from 8, when rank 1 has run its own, B1 from 14 to 19.
    assert "one step takes 19.000 ms" in result.stdout
    # Two microbatches of 10 + 1 MB on rank 0, one of 20 MB on rank 1, beside 200 MB of parameters.
    assert [line.split()[4] for line in result.stdout.splitlines()[7:9]] == ["222.0", "220.0"]
    assert "within the limit of 225.0 MB" in result.stdout
    assert json.loads((folder / "p.json").read_text())["recompute"]["full"] == [[1, 0]]
    written = json.loads((folder / "p.json").read_text())
    assert (written["status"], written["makespan_ms"]) == ("simulated", 19.0)
    assert (written["lower_bound_ms"], written["gap"]) == (None, None)


def test_a_plan_file_and_its_layer_file_in_any_order(folder, evenflow):
    options = ("--recompute", "full=1,1", "--recompute", "full=0,1", "--schedule", "interleaved-less-memory")
    first = evenflow(
        "simulate", "tiny.json", "--microbatches", 3, "--layers", "1,1", "--layers", "1,1", *options, "--json", "a.json"
    )
    assert first.exit_code == 0
    plan = parse_plan((folder / "a.json").read_text(), place="a.json")
    assert (plan.schedule, plan.recompute) == ("interleaved-less-memory", {"full": ((1, 1), (0, 1))})
    again = evenflow("simulate", "a.json", "tiny.json", "--json", "b.json")
    assert again.exit_code == 0
    assert (folder / "b.json").read_text() == (folder / "a.json").read_text()


def test_a_plan_file_alone_has_the_model_and_the_messages(folder, evenflow):
    first = evenflow("simulate", "tiny.json", *EVEN, "--p2p-latency", "500us", "--json", "a.json")
    assert first.exit_code == 0
    again = evenflow("simulate", "a.json", "--json", "b.json")
    assert again.exit_code == 0, again.stderr
    assert (folder / "b.json").read_text() == (folder / "a.json").read_text()
    other = evenflow("simulate", "a.json", "--p2p-latency", "1ms", "--json", "c.json")
    assert json.loads((folder / "c.json").read_text())["makespan_ms"] > 19.0, other.stderr
    with_layers = evenflow("simulate", "a.json", "tiny.json")
    assert "one step takes 18.000 ms" in with_layers.stdout


def test_without_layers_they_are_dealt_evenly(folder, evenflow):
    result = evenflow("simulate", "tiny.json", "--microbatches", 2, "--ranks", 2, "--chunks", 2)
    assert result.exit_code == 0
    assert result.stdout.count(" 1 1 ") == 2
    assert "next: with --json plan.json, evenflow export plan.json --to NAME prints it" in result.stdout
    assert "To put in yaml" not in result.stdout


@pytest.mark.parametrize("chunks", [("--chunks", 2), ("--schedule", "zbv")])
def test_layers_of_each_rank_are_dealt_over_its_chunks(folder, evenflow, chunks):
    """As `evenflow plan --layers-per-rank` deals them."""
    result = evenflow("simulate", "tiny.json", "--microbatches", 2, "--layers", "3,1", *chunks, "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert json.loads((folder / "p.json").read_text())["layers"] == [[2, 1], [1, 0]]


def test_messages_between_ranks_take_time(folder, evenflow):
    result = evenflow("simulate", "tiny.json", *EVEN, "--p2p-latency-us", 500)
    # Rank 1 runs F0 at 2.5, B0 at 4.5..8.5, F1, B1 at 10.5..14.5; rank 0 gets that at 15.0 and takes 4 ms.
    step = next(line for line in result.stdout.splitlines() if line.startswith("one step"))
    assert float(step.split()[3]) == 19.0
    assert "500.000 us latency" in result.stdout
    assert "p2p" in result.stdout


def test_messages_take_what_the_layers_before_the_cut_send(folder, evenflow):
    (entry,) = TINY["layers_description"]
    sizes = [{**entry, "nb_layer": 1, "boundary_bytes": size} for size in (1000, 500, 1, 1)]
    (folder / "sizes.json").write_text(json.dumps({**TINY, "layers_description": sizes}))
    command = ("simulate", "sizes.json", "--microbatches", 2, "--p2p-bandwidth", "1MB/s")
    steps = {}
    for layers in ("1,3", "2,2", "3,1"):
        result = evenflow(*command, "--layers", layers, "--json", "p.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        steps[layers] = json.loads((folder / "p.json").read_text())
        free = evenflow(*command[:4], "--layers", layers, "--json", "q.json", "--overwrite")
        assert "note: the boundary_bytes of the layers take no time without --p2p-bandwidth" in free.stderr
        without = json.loads((folder / "q.json").read_text())["makespan_ms"]
        sent_ms = {"1,3": 1.0, "2,2": 0.5, "3,1": 0.001}[layers]
        assert steps[layers]["makespan_ms"] == pytest.approx(without + 2 * sent_ms)
        assert f"{1000 * sent_ms:,.3f} to {1000 * sent_ms:,.3f} us transfer" in result.stdout
    again = evenflow("simulate", "p.json", "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    assert json.loads((folder / "again.json").read_text())["makespan_ms"] == steps["3,1"]["makespan_ms"]


def test_over_the_limit_is_said_with_the_ranks(folder, evenflow):
    result = evenflow("simulate", "tiny.json", *EVEN, "--memory", "239MB", "--svg", "p.svg")
    assert result.exit_code == 0
    assert "does not fit: peak 240.0 MB on rank 0, 1.0 MB over the limit of 239.0 MB" in result.stdout
    assert result.stdout.count("OVER") == 1
    assert (folder / "p.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ("LAYERS.json",)),
        (("tiny.json",), ("--microbatches",)),
        (("tiny.json", "--microbatches", 2), ("--layers", "--ranks")),
        (("tiny.json", "tiny.json", *EVEN), ("must have one layer file",)),
        (("old.json",), ("layer file", "does not hold the model")),
        (("plan.json", "plan.json"), ("layer file",)),
        (("plan.json", "tiny.json", "tiny.json"), ("at most one plan file",)),
        (("plan.json", "tiny.json", "--microbatches", 2), ("--microbatches", "plan file")),
        (("plan.json", "tiny.json", "--less-memory"), ("--less-memory", "plan file")),
        (("plan.json", "tiny.json", "--recompute", "full=1"), ("--recompute", "plan file")),
        (("tiny.json", "--microbatches", 2, "--layers", "2,1"), ("4", "3")),
        (("tiny.json", "--microbatches", 2, "--layers", "2,x"), ("--layers", "'2,x'")),
        (("tiny.json", "--microbatches", 2, "--layers", "5,-1"), ("--layers", "-1")),
        (("tiny.json", "--microbatches", 2, "--layers", "2,1", "--layers", "1"), ("layers",)),
        (("tiny.json", *EVEN, "--ranks", 3), ("--ranks", "3")),
        (("tiny.json", *EVEN, "--layers", "0,0", "--chunks", 3), ("--layers", "once for each of the 3 chunks")),
        (("tiny.json", *EVEN, "--recompute", "full"), ("--recompute", "KIND=")),
        (("tiny.json", *EVEN, "--recompute", "full=1"), ("--recompute full", "2 ranks")),
        (("tiny.json", *EVEN, "--recompute", "full=3,0"), ("recompute", "3")),
        (("tiny.json", *EVEN, "--recompute", "select=1,0"), ("select", "full, none")),
        (("tiny.json", *EVEN, "--recompute", "none=1,0"), ("none",)),
        (("tiny.json", *EVEN, "--sequence-splits", 2, "--recompute", "full=1,0"), ("full", "keys and values")),
        (("tiny.json", *EVEN, "--schedule", "zigzag"), ("schedule", "'zigzag'")),
        (("tiny.json", *EVEN, "--json", "tiny.json"), ("--json", "tiny.json")),
        (("none.json", *EVEN), ("none.json",)),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(folder, evenflow, arguments, parts):
    made = evenflow("simulate", "tiny.json", *EVEN, "--json", "plan.json")
    assert made.exit_code == 0
    old = json.loads((folder / "plan.json").read_text())
    del old["network"]
    (folder / "old.json").write_text(json.dumps(old))
    result = evenflow("simulate", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
    assert {path.name for path in folder.iterdir()} == {"tiny.json", "plan.json", "old.json"}


def test_a_rank_that_sends_one_message_at_a_time_says_what_it_costs(folder, evenflow):
    sizes = ("plan", "tiny.json", "--ranks", 2, "--chunks", 2, "--microbatches", 4, "--schedule", "interleaved")
    link = ("--p2p-latency", "1us", "--p2p-bandwidth", "1GBps", "--boundary", "2MB", "--p2p-exclusive")
    planned = evenflow(*sizes, *link, "--time-limit", 1, "--json", "in_turn.json")
    assert planned.exit_code == 0, planned.stderr
    assert "each rank sends one at a time, which makes the step" in planned.stdout
    plan = json.loads((folder / "in_turn.json").read_text())
    assert plan["communication"] == {"latency_ms": 0.001, "transfer_ms": 2.097152, "one_at_a_time": True}
    again = evenflow("simulate", "in_turn.json", "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    assert json.loads((folder / "again.json").read_text())["makespan_ms"] == plan["makespan_ms"]
    free = evenflow(*sizes, *link[:-1], "--time-limit", 1, "--json", "free.json")
    assert free.exit_code == 0, free.stderr
    given = evenflow("simulate", "free.json", "--p2p-exclusive", "--json", "given.json")
    assert given.exit_code == 0, given.stderr
    assert json.loads((folder / "given.json").read_text())["communication"]["one_at_a_time"] is True


@pytest.mark.parametrize("given", [(), ("--p2p-latency", "5ms")])
def test_messages_that_keep_no_link_busy_cannot_wait(folder, evenflow, given):
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, *given, "--p2p-exclusive")
    assert result.exit_code == 2
    assert "--p2p-exclusive must come with --p2p-bandwidth: messages that take no time do not wait" in result.stderr
