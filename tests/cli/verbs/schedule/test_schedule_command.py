import json

import pytest

from evenflow.schedule import FAMILIES
from evenflow.schedule.families import ALIASES
from tests.report.decoder import read_page

SHOWN = """\
1f1b: 2 ranks x 1 chunk, 3 microbatches; equal stages, forward 1 ms, backward 2 ms

rank 0  F0 F1 .  .  B0--- F2 B1--- .  B2---
rank 1  .  F0 B0--- F1 B1--- F2 B2--- .  .
(one column is 1 ms)

one step takes 12 ms; 25.0 % of all ranks' time is idle
idle on each rank: 3 ms by formula (p-1) (f+b), 3 ms simulated
bubbles in ms, by formula | simulated:
rank  before  F to F  B to B  after  idle %  peak live
   0   0 | 0   2 | 2   1 | 1  0 | 0    25.0          2
   1   1 | 1   0 | 0   0 | 0  2 | 2    25.0          1

live activations in microbatches: 2 on the fullest rank, 1.5 on average; F-then-B keeps all 3 on every rank
saved against F-then-B: 33.3 % on the fullest rank, 50.0 % on average
"""
CHECKED = """\
orders.csv: complete, and it can finish

orders: 2 ranks x 1 chunk, 1 microbatch; equal stages, forward 1 ms, backward 2 ms
one step takes 6 ms; 50.0 % of all ranks' time is idle

rank  idle %  peak live
   0    50.0          1
   1    50.0          1
"""
STUCK = """\
error: orders.csv must let every action start once the actions before it on its rank and its dependency have ended, \
but 7 of 8 actions never can; change the order of the ranks below, which wait for each other
rank 0: 0F0 ->0B0 0F1 0B1
rank 1: ->1F1 1F0 1B0 1B1
the circle:
  0B0 on rank 0 needs 1B0 of rank 1
  rank 1 runs 1B0 only after 1F1
  1F1 on rank 1 needs 0F1 of rank 0
  rank 0 runs 0F1 only after 0B0
"""


def test_the_list_has_every_family_and_alias(evenflow, folder):
    result = evenflow("schedules", "--json", "families.json")
    assert result.exit_code == 0
    families = json.loads((folder / "families.json").read_text())
    assert list(families) == list(FAMILIES)
    assert {alias for family in families.values() for alias in family["aliases"]} == set(ALIASES)
    for name, family in FAMILIES.items():
        assert f"\n{name}\n  idea    {family.idea}"[:100] in result.stdout
    for alias in ALIASES:
        assert f"\n  also    {alias}: " in result.stdout


def test_a_family_is_shown(evenflow, folder):
    result = evenflow("schedule", "show", "pipedream-flush", "--ranks", 2, "--microbatches", 3)
    assert (result.exit_code, result.stdout) == (0, SHOWN)


def test_places_without_a_formula_say_so(evenflow, folder):
    result = evenflow("schedule", "show", "v-half", "--ranks", 4, "--microbatches", 8, "--weight", 0.5)
    assert result.exit_code == 0
    assert "ms simulated; no formula: only for f = i = w" in result.stdout
    assert "(? means no formula for these sizes and times)" in result.stdout
    assert "? | " in result.stdout


def test_a_grid_too_wide_to_print(evenflow, folder):
    arguments = ("--ranks", 2, "--microbatches", 3, "--forward", 1.00001)
    result = evenflow("schedule", "show", "1f1b", *arguments)
    assert result.exit_code == 0
    assert "(no grid: at one column for each 0.00001 ms it would be too wide; --svg draws it)" in result.stdout


def test_json_and_picture_of_a_family(evenflow, folder):
    arguments = ("--ranks", 2, "--chunks", 2, "--microbatches", 2, "--backward", 3)
    result = evenflow("schedule", "show", "interleaved", *arguments, "--json", "a.json", "--svg", "a.svg")
    assert result.exit_code == 0
    assert result.stdout.endswith("\nwrote a.json, a.svg\n")
    shown = json.loads((folder / "a.json").read_text())
    assert shown["schedule"] == "interleaved"
    assert shown["makespan_ms"] == 20.0  # (2 chunks x 2 microbatches + 1) (1 + 3)
    assert shown["idle_share"] == [0.2, 0.2]
    assert shown["peak_live_microbatches"] == [2.0, 1.5]
    assert shown["order"][0] == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1"
    assert shown["bubbles"] == shown["bubbles_by_formula"]
    assert shown["bubbles"][0] == [{"place": "between forward and backward", "count": 1, "length_ms": 4.0}]
    assert "interleaved: 2 ranks x 2 chunks, 2 microbatches" in (folder / "a.svg").read_text()


def test_parts_of_sequences_keep_their_share(evenflow, folder):
    """Two ranks, two parts: rank 0 keeps 3 parts, 1.5 microbatches. [Seq1F1B, arXiv:2406.03488, §3]"""
    arguments = ("--ranks", 2, "--microbatches", 4, "--sequence-splits", 2, "--json", "a.json")
    assert evenflow("schedule", "show", "seq1f1b", *arguments).exit_code == 0
    assert json.loads((folder / "a.json").read_text())["peak_live_microbatches"] == [1.5, 1.0]


def test_an_order_that_is_fine(evenflow, folder):
    (folder / "orders.csv").write_text("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    result = evenflow("schedule", "check", "orders.csv", "--json", "a.json")
    assert (result.exit_code, result.stdout) == (0, CHECKED + "\nwrote a.json\n")
    checked = json.loads((folder / "a.json").read_text())
    assert checked["order"] == ["0F0 0B0", "1F0 1B0"]
    assert checked["bubbles_by_formula"] == [None, None]


def test_job_lists_from_standard_input(evenflow, folder):
    jobs = [[{"type": "forward", "micro_batch_id": 0}, {"type": "backward", "micro_batch_id": 0}]]
    result = evenflow("schedule", "check", "-", stdin=json.dumps(jobs))
    assert result.exit_code == 0
    assert result.stdout.startswith("standard input: complete, and it can finish\n\nstdin: 1 rank x 1 chunk, ")


def test_an_order_that_can_never_finish_shows_the_circle(evenflow, folder):
    (folder / "orders.csv").write_text("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n")
    result = evenflow("schedule", "check", "orders.csv")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", STUCK)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("0F0,0F0,0B0\n1F0,1B0", ", got '0F0 2 times'\nrank 0: ->0F0 ->0F0 0B0\n"),
        ("0F0,0B0\n1B0,1F0", "must run a backward after its own forward, got '1B0'\nrank 1: ->1B0 1F0\n"),
        ("0F0,0B0\n1F0", ", got '1B0 0 times'\n"),
        (
            "0F0,0F1,0F2,0F3,0F4,0F5,0B1,0B2,0B0,0B3,0B4,0B5,0F0",
            ", got '0F0 2 times'\n"
            "rank 0: ->0F0 0F1 0F2 0F3 0F4 … 0B0 0B3 0B4 0B5 ->0F0\n",
        ),
        (
            "0F0,0F1,0F2,0F3,0F4,0B5,0F5,0B1,0B2,0B0,0B3,0B4",
            "must run a backward after its own forward, got '0B5'\n"
            "rank 0: … 0F1 0F2 0F3 0F4 ->0B5 0F5 0B1 0B2 0B0 …\n",
        ),
        ("0F0,0B0\n0Q0", "must be a stage, an operation"),
        ("999999F999999", "must be at most 1,000,000 actions, to be looked at"),
    ],
)  # fmt: skip
def test_a_faulty_order_is_one_message_with_its_place(evenflow, folder, order, message):
    (folder / "orders.csv").write_text(order)
    result = evenflow("schedule", "check", "orders.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: orders.csv")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing command"),
        (("draw",), "No such command 'draw'"),
        (("show", "1f1b", "--ranks", 2), "--microbatches"),
        (("show", "1f2b", "--ranks", 2, "--microbatches", 2), "did you mean 1f1b?"),
        (("show", "1f1b", "--ranks", 2, "--microbatches", 2, "--chunks", 2), "chunks must be 1 per rank for 1f1b"),
        (
            ("show", "1f1b", "--ranks", 2, "--microbatches", 2, "--forward", "nan"),
            "--forward must be",
        ),
        (("show", "1f1b", "--ranks", 2, "--microbatches", 2, "--backward", 0), "--backward must be a number above"),
        (("show", "1f1b", "--ranks", 999, "--microbatches", 999), "at most 1,000,000 actions"),
        (
            ("show", "interleaved-remainder-last", "--ranks", 4, "--chunks", 3, "--microbatches", 5),
            "last group of 1 on 4 ranks x 3 chunks, where ranks wait for each other in a circle",
        ),
        (("check", "missing.csv"), "cannot read missing.csv: no such file"),
        (("check", "tiny.json", "--json", "tiny.json"), "--json must not be the same file as the input file"),
        (("check", "tiny.json"), "a list of jobs for each rank"),
    ],
)
def test_a_wrong_command_line_is_one_message(evenflow, folder, arguments, message):
    result = evenflow("schedule", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_a_v_and_its_weight_gradients(evenflow, folder):
    """4 ranks, 8 microbatches of f = i = w = 1 on 2 chunks: 48 ms of work and 3 of fill; then w = 0.5."""
    arguments = ("--ranks", 4, "--microbatches", 8)
    result = evenflow("schedule", "show", "zbv", *arguments, "--json", "a.json")
    assert result.exit_code == 0
    assert (
        "zbv: 4 ranks x 2 chunks, 8 microbatches; equal stages, forward 1 ms, backward 2 ms, 1 ms of it"
        in result.stdout
    )
    shown = json.loads((folder / "a.json").read_text())
    assert (shown["chunks"], shown["makespan_ms"], shown["weight_ms"]) == (2, 51.0, 1.0)
    assert shown["peak_live_microbatches"] == [4.0] * 4
    assert shown["bubbles"] == shown["bubbles_by_formula"]
    assert shown["bubbles"][1] == [
        {"place": "before the first action", "count": 1, "length_ms": 1.0},
        {"place": "after the last action", "count": 1, "length_ms": 2.0},
    ]
    result = evenflow("schedule", "show", "zbv", *arguments, "--backward", 1.5, "--weight", 0.5, "--json", "b.json")
    shown = json.loads((folder / "b.json").read_text())
    assert (shown["makespan_ms"], shown["weight_ms"]) == (43.0, 0.5)
    assert shown["bubbles_by_formula"] == [None] * 4


@pytest.mark.parametrize(
    ("weight", "rule"), [(2.5, "longer than the backward"), (0, "above zero"), ("nan", "above zero")]
)
def test_weight_times_that_make_no_sense(evenflow, folder, weight, rule):
    result = evenflow("schedule", "show", "zb-h1", "--ranks", 2, "--microbatches", 2, "--weight", weight)
    assert result.exit_code == 2
    assert "--weight" in result.stderr
    assert rule in result.stderr


def test_pages_of_schedules(evenflow, folder):
    """That of a family is a plan file of equal stages; any other order has no name that a plan could say."""
    shown = evenflow("schedule", "show", "zbv", "--ranks", 2, "--microbatches", 4, "--html", "zbv.html")
    assert shown.exit_code == 0, shown.stderr
    again = evenflow("simulate", "zbv.html")
    assert again.exit_code == 0, again.stderr
    (folder / "order.csv").write_text("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n")
    checked = evenflow("schedule", "check", "order.csv", "--html", "order.html")
    assert checked.exit_code == 0, checked.stderr
    page = read_page((folder / "order.html").read_text())
    assert page.plans == []
    assert page.columns[0]["unit"] == [0, 1, 1, 0, 0, 1, 1, 0]
    assert evenflow("simulate", "order.html").exit_code == 2
    assert evenflow("report", "order.html", "zbv.html").exit_code == 0
