"""``--place-ranks``: where ranks that differ stand."""

import json

import pytest

TWO = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--time-limit", 20)
SLOW_FIRST = ("--rank-speed", "0:0.5", "--place-ranks", 1)


@pytest.mark.parametrize("schedule", [(), ("--schedule", "best", "--chunks", 1), ("--target", "megatron")])
def test_the_answer_says_where_the_ranks_were_placed(folder, evenflow, schedule):
    result = evenflow(*TWO, *SLOW_FIRST, *schedule, "--json", "plan.json", "--html", "plan.html")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "plan.json").read_text())
    assert sorted(written["rank_order"]) == [0, 1]
    shown = "0-1" if written["rank_order"] == [0, 1] else "1, 0"
    assert f"ranks placed: 0 to 1 are {shown} as given" in result.stdout
    assert "in any of 2 orders of the ranks" in result.stdout
    slow = written["rank_order"].index(0)
    speeds = [rank.get("speed", 1.0) for rank in written["network"]["ranks"] for _copy in range(rank.get("count", 1))]
    assert speeds == [0.5 if rank == slow else 1.0 for rank in range(2)]
    stated = evenflow("simulate", "plan.json")
    assert stated.exit_code == 0
    assert f"{written['makespan_ms']:,.3f}" in stated.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--place-ranks", 1), "--place-ranks must come with ranks that differ, got 1"),
        (("--rank-speed", "0:0.5", "--place-ranks", 3), "--place-ranks must divide the 2 ranks, got 3"),
        ((*SLOW_FIRST, "--rank-link", "0:1ms"), "--place-ranks must not be given where links differ, which do not"),
        ((*SLOW_FIRST, "--schedule", "search"), "--place-ranks must not be given beside --schedule search"),
    ],
)
def test_what_cannot_be_placed_is_refused(folder, evenflow, options, message):
    result = evenflow(*TWO, *options)
    assert result.exit_code == 2
    assert message in result.stderr
