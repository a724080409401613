"""``evenflow plan --schedule best``, with the real solver on a model small enough to prove everything."""

import json
from dataclasses import replace

import pytest

from evenflow import solve
from evenflow.errors import Interrupted
from evenflow.model import ANY_CONTENT, Request, Sizes
from evenflow.profiles.plan_file import read_plan_file
from evenflow.schedule import FAMILIES
from evenflow.solve.requests import ContestSearch

TWO = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--schedule", "best", "--time-limit", 20)
ONE_CHUNK = sorted(
    name
    for name, each in FAMILIES.items()
    if not (each.comparison_only or each.has_pairs) and each.fewest_chunks == 1 and each.num_chunks in (None, 1)
)
TRAIN = """\
model: {model_config: {num_layers: 4, offset: 0, pp_interleave_num: 1}}
recompute_config: {recompute: false, select_recompute: false, select_comm_recompute: false}
parallel_config: {pipeline_stage: 1, micro_batch_num: 1, seq_split_num: 1}
parallel: {pipeline_config: {pipeline_interleave: true, pipeline_scheduler: "1f1b"}}
"""


def rows_of(stdout: str) -> list[list[str]]:
    """The rows of the table of schedules, split into words."""
    lines = stdout.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("schedule "))
    rows = []
    for line in lines[start + 1 :]:
        words = line.split()
        if not words or words[0] not in FAMILIES:
            break
        rows.append(words)
    return rows


def test_prints_the_best_plan_and_a_row_for_every_schedule(folder, evenflow):
    result = evenflow(*TWO, "--chunks", 1, "--json", "best.json", "--svg", "best.svg")
    assert result.exit_code == 0
    rows = rows_of(result.stdout)
    assert sorted(row[0] for row in rows) == ONE_CHUNK
    assert rows[0][-1] == "best"
    times = [float(row[2]) for row in rows if row[2] != "not"]
    assert times == sorted(times)
    assert "best of all, to 2 parts in a million: no plan of these" in result.stdout
    assert (folder / "best.svg").read_text().startswith("<svg")
    written = json.loads((folder / "best.json").read_text())
    assert (written["schedule"], written["makespan_ms"]) == (rows[0][0], times[0])
    assert read_plan_file("best.json").schedule == rows[0][0]
    assert 0 <= written["gap_over_all"] <= 2e-6
    assert written["bound_over_all_ms"] <= written["makespan_ms"]
    others = written["alternatives"]
    assert sorted([written["schedule"], *(each["schedule"] for each in others)]) == ONE_CHUNK
    for each in others:
        if each["status"] == "skipped":
            assert each["reason"]
        else:
            assert each["lower_bound_ms"] <= each["makespan_ms"]
            assert sum(map(sum, each["layers"])) == 4


def test_a_best_schedule_that_mindformers_cannot_run_is_said(folder, evenflow):
    """4 microbatches on 2 ranks: split backwards make the drain shorter, so 1F1B (30 ms) is not the best."""
    result = evenflow(*TWO, "--chunks", 1)
    assert rows_of(result.stdout)[0][0] not in ("1f1b", "f-then-b")
    assert "the best that MindFormers can run: --schedule " in result.stdout
    assert "30.000 ms" in result.stdout
    quiet = evenflow(*TWO, "--chunks", 1, "--quiet")
    assert quiet.stdout == ""
    assert "no block for MindFormers" in quiet.stderr


def test_chunks_are_free_unless_they_are_asked_for(folder, evenflow):
    assert {row[1] for row in rows_of(evenflow(*TWO).stdout)} == {"1", "2"}  # 4 layers on 2 ranks
    assert {row[1] for row in rows_of(evenflow(*TWO, "--chunks", 2).stdout)} == {"2"}


def test_apply_tries_what_mindformers_can_run(folder, evenflow):
    (folder / "train.yaml").write_text(TRAIN)
    result = evenflow(*TWO, "--apply", "train.yaml", "--memory", "260MB")
    assert result.exit_code == 0
    assert {row[0] for row in rows_of(result.stdout)} <= {"1f1b", "interleaved", "interleaved-less-memory", "f-then-b"}
    assert "To put in yaml" in result.stdout
    assert "pipeline_stage: 2" in (folder / "train.planned.yaml").read_text()


def test_kept_layers_are_dealt_over_every_number_of_chunks(folder, evenflow):
    result = evenflow(*TWO, "--layers-per-rank", "2,2", "--json", "best.json")
    assert {row[1] for row in rows_of(result.stdout)} == {"1", "2"}
    written = json.loads((folder / "best.json").read_text())
    for each in [written, *written["alternatives"]]:
        if each["status"] != "skipped":
            assert [sum(rank) for rank in zip(*each["layers"], strict=True)] == [2, 2]
    few = evenflow(*TWO, "--layers-per-rank", "1,3", "--no-empty")
    assert {row[1] for row in rows_of(few.stdout)} == {"1"}
    by_chunk = evenflow(*TWO, "--layers-per-rank", "1,1", "--layers-per-rank", "1,1")
    assert {row[1] for row in rows_of(by_chunk.stdout)} == {"2"}


def test_nothing_fits(folder, evenflow):
    result = evenflow(*TWO, "--chunks", 1, "--memory", "150MB", "--json", "no.json")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "it is that of " in result.stderr
    assert sorted(row[0] for row in rows_of(result.stderr)) == ONE_CHUNK
    written = json.loads((folder / "no.json").read_text())
    assert (written["status"], written["schedule"], written["bound_over_all_ms"]) == ("infeasible", "best", None)
    assert len(written["alternatives"]) == len(ONE_CHUNK)
    needed = [each["smallest_limit_mb"] for each in written["alternatives"] if each["status"] == "infeasible"]
    assert written["smallest_limit_mb"] == min(needed)


def test_options_reach_the_solver(folder, evenflow, monkeypatch):
    asked = {}

    def record(request, search, *, families):
        asked.update(request=request, search=replace(search, progress=None), families=families)
        raise Interrupted

    monkeypatch.setattr("evenflow.solve.time_left.now_s", lambda: 0.0)
    monkeypatch.setattr(solve, "solve_best", record)
    evenflow(
        *TWO, "--memory", "1GB", "--mix", "any", "--allow-empty", "--sequence-splits", 2, "--p2p-latency-us", 5,
        "--chunks", 2,
    )  # fmt: skip
    request = asked.pop("request")
    assert request.communication.latency_ns == 5000
    assert request == Request(
        network=request.network,
        sizes=Sizes(num_ranks=2, num_microbatches=4, num_chunks=2, sequence_splits=2),
        memory_limit_bytes=2**30,
        cell_rule=ANY_CONTENT,
        allow_empty=True,
        communication=request.communication,
    )
    search = asked.pop("search")
    assert search.time_limit_s == pytest.approx(20.0, rel=1e-4)
    assert search == ContestSearch(num_chunks=(2,), time_limit_s=search.time_limit_s)
    assert asked == {"families": ()}


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--less-memory",), ("--less-memory must not be given beside --schedule best", "leave it out")),
        (("--chunks", 3, "--no-empty"), ("one for each of", "4")),
        (("--layers-per-rank", "2,1"), ("--layers-per-rank", "must add up to the 4")),
        (("--layers-per-rank", "1,1", "--layers-per-rank", "1,1", "--chunks", 1), ("--layers-per-rank",)),
        (("--memory", "much"), ("--memory",)),
        (("--microbatches", 10**9), ("2,000,000",)),
    ],
)
def test_bad_input_is_one_message(folder, evenflow, options, parts):
    result = evenflow(*TWO, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def test_other_verbs_say_that_best_is_no_schedule(folder, evenflow):
    result = evenflow("simulate", "tiny.json", "--ranks", 2, "--microbatches", 2, "--schedule", "best")
    assert result.exit_code == 2
    assert "'best'" in result.stderr
