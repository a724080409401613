"""``--group-size`` of the verbs that take it."""

import json

import pytest

from evenflow.profiles.plan_file import read_plan_file
from evenflow.schedule import make_schedule

TWO = ("--ranks", 2, "--chunks", 2, "--microbatches", 5)
PLAN = ("plan", "tiny.json", *TWO, "--time-limit", 20)


def test_a_plan_keeps_its_group_size_on_every_way(folder, evenflow):
    result = evenflow(*PLAN, "--group-size", 4, "--json", "p.json", "--svg", "p.svg", "--order", "order.csv")
    assert result.exit_code == 0, result.stderr
    assert "interleaved in groups of 4" in result.stdout
    assert "5 microbatches in groups of 4" in (folder / "p.svg").read_text()
    assert read_plan_file("p.json").group_size == 4
    order = make_schedule("interleaved", num_ranks=2, num_chunks=2, num_microbatches=5, group_size=4)
    rows = (folder / "order.csv").read_text().splitlines()
    assert [row.replace(" ", "").split(",") for row in rows] == [
        [str(action) for action in order.order(rank)] for rank in range(2)
    ]
    again = evenflow("simulate", "tiny.json", "p.json", "--json", "q.json")
    assert again.exit_code == 0
    first, second = (json.loads((folder / name).read_text()) for name in ("p.json", "q.json"))
    assert (first["makespan_ms"], first["group_size"]) == (second["makespan_ms"], 4)


def test_the_usual_size_is_left_out(folder, evenflow):
    assert evenflow(*PLAN, "--group-size", 2, "--json", "p.json").exit_code == 0
    assert "group_size" not in json.loads((folder / "p.json").read_text())


def test_the_best_size_is_proven_over_all(folder, evenflow):
    result = evenflow(*PLAN, "--group-size", "best", "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert "best of all, to 2 parts in a million: no plan of these" in result.stdout
    header = next(line for line in result.stdout.splitlines() if line.startswith("schedule "))
    assert header.split()[:3] == ["schedule", "chunks", "group"]
    written = json.loads((folder / "p.json").read_text())
    sizes = [written.get("group_size"), *(each.get("group_size") for each in written["alternatives"])]
    assert sorted(size or 0 for size in sizes) == [0, 5]  # groups of 3 make the usual order, of 4 that of 5
    assert written["gap_over_all"] <= 2e-6


@pytest.mark.parametrize("verb", ["simulate", "show"])
def test_every_size_is_simulated_where_nothing_else_is_free(folder, evenflow, verb):
    words = ("simulate", "tiny.json") if verb == "simulate" else ("schedule", "show", "interleaved")
    result = evenflow(*words, *TWO, "--group-size", "best", "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert "group sizes is" in result.stdout
    best = json.loads((folder / "p.json").read_text())
    for size in range(2, 6):
        other = evenflow(*words, *TWO, "--group-size", size, "--json", f"{size}.json")
        assert other.exit_code == 0, other.stderr
        assert json.loads((folder / f"{size}.json").read_text())["makespan_ms"] >= best["makespan_ms"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*PLAN, "--group-size", "most"), "--group-size must be an integer from 1 to 2,000,000, or best, got 'most'"),
        ((*PLAN, "--group-size", 0), "--group-size must be an integer from 1 to 2,000,000, or best, got '0'"),
        ((*PLAN, "--group-size", 10**30), "--group-size must be an integer from 1 to 2,000,000, or best"),
        ((*PLAN, "--group-size", 6), "--group-size must be from 2 to the number of microbatches (5) for interleaved"),
        ((*PLAN, "--schedule", "f-then-b", "--group-size", 2), "must not be given for f-then-b, which has no groups"),
        ((*PLAN, "--schedule", "best", "--group-size", 2), "must not be given beside --schedule best"),
        ((*PLAN, "--schedule", "search", "--group-size", "best"), "must not be given beside --schedule search"),
        (
            ("simulate", "tiny.json", "--ranks", 2, "--microbatches", 4, "--group-size", "best"),
            "--group-size must not be given for 1f1b",
        ),
        (
            (
                "schedule",
                "show",
                "interleaved",
                "--ranks",
                2,
                "--chunks",
                2,
                "--microbatches",
                4000,
                "--group-size",
                "best",
            ),
            "--group-size must be a number where all",
        ),
    ],
)
def test_refused(folder, evenflow, words, message):
    result = evenflow(*words)
    assert result.exit_code == 2
    assert message in result.stderr
