import json

import pytest

from evenflow import solve
from evenflow.solve import Status
from tests.paths import EXAMPLES

EXAMPLE = EXAMPLES / "llama2_70b.json"
SIZES = ("--ranks", 2, "--microbatches", 2)

# By hand, as in test_plan.py: a stage of two layers takes 2 + 4 ms and 200 MB and, of two microbatches on rank 0, 20 MB
# each: 240 MB. A recomputed layer saves 2 * 9 MB there and costs 1 ms, so 230 MB needs one. Then F0 F1 run at 0..4 on
# rank 0, B0 on rank 1 at 4..8, on rank 0 at 8..13, and B1, which rank 1 ends at 14, at 14..19.
STEPS = """\
tiny: 4 layers on 2 ranks x 1 chunk, 2 microbatches, 1f1b

#  change                              layers  full  stage ms  max - min  peak MB  step ms  limit
0  layers dealt evenly, none recomputed   2 2   0 0   6.0 6.0        0.0  240 220   18.000  OVER
1  recompute 1 on rank 0                  2 2   1 0   7.0 6.0        1.0  222 220   19.000  fits

fits: peak 222.0 MB on rank 0, 8.0 MB within the limit of 230.0 MB
"""


def words(text):
    """The table without its spacing, which the widest cells decide."""
    return [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("fake_solver")
def test_steps_comparison_and_what_is_next(folder, evenflow):
    result = evenflow("quick-tune", "tiny.json", *SIZES, "--memory", "230MB", "--json", "tuned.json")
    assert result.exit_code == 0
    assert words(result.stdout)[: len(words(STEPS))] == words(STEPS)
    # The solver of these tests deals evenly and recomputes everything: 24 ms.
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if " fits" in line}
    assert (rows["rule_of_thumb"], rows["recommended"]) == ("19.000", "24.000")
    assert "optimum_full_only" not in result.stdout
    assert "To put in yaml" not in result.stdout
    command = "evenflow simulate tiny.json --microbatches 2 --layers 2,2 --recompute full=1,0 --json plan.json"
    assert f"next: {command}, then\n" in result.stdout
    kept = evenflow(*command.split()[1:])
    assert "one step takes 19.000 ms" in kept.stdout
    assert "next: evenflow export plan.json --to NAME" in kept.stdout
    assert "offset: [[0, 0]]\n" in evenflow("export", "plan.json", "--to", "mindformers").stdout
    written = json.loads((folder / "tuned.json").read_text())
    assert list(written) == ["steps", "rule_of_thumb", "recommended"]
    assert written["steps"][1] == {
        "change": "recompute 1 on rank 0", "layers": [[2, 2]], "recompute_full": [[1, 0]],
        "stage_time_ms": [7.0, 6.0], "peak_memory_mb": [222.0, 220.0], "makespan_ms": 19.0, "fits": True,
    }  # fmt: skip
    assert written["rule_of_thumb"]["recompute"]["full"] == [[1, 0]]
    assert written["recommended"]["status"] == "feasible"


@pytest.mark.usefixtures("fake_solver")
def test_more_kinds_are_a_second_optimum(folder, evenflow):
    text = (folder / "tiny.json").read_text()
    (folder / "kinds.json").write_text(
        text.replace('"memory_recompute": 1', '"memory_recompute": 1, "memory_select_rec": 5')
    )
    result = evenflow("quick-tune", "kinds.json", *SIZES, "--memory", "230MB", "--json", "tuned.json")
    assert result.exit_code == 0
    assert list(json.loads((folder / "tuned.json").read_text())) == [
        "steps", "rule_of_thumb", "optimum_full_only", "recommended"
    ]  # fmt: skip


@pytest.mark.usefixtures("fake_solver")
def test_infeasible_says_so_and_gives_no_block(folder, evenflow):
    result = evenflow("quick-tune", "tiny.json", *SIZES, "--memory", "100MB", "--json", "tuned.json")
    assert result.exit_code == 3
    assert "the rule of thumb has no answer" in result.stdout
    assert "To put in yaml" not in result.stdout
    assert "recommended: infeasible: no plan fits in 100 MB" in result.stderr
    written = json.loads((folder / "tuned.json").read_text())
    assert (written["recommended"]["status"], written["steps"][-1]["fits"]) == ("infeasible", False)


@pytest.mark.usefixtures("fake_solver")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tiny.json", "--ranks", 3, "--microbatches", 2), "ranks must be 2 or 4"),
        (("tiny.json", "--ranks", 2), "--microbatches"),
        (("missing.json", *SIZES), "cannot read missing.json: no such file"),
        (("tiny.json", *SIZES, "--memory", "lots"), "--memory must be a number"),
        (("tiny.json", *SIZES, "--json", "tiny.json"), "must not be the same file as the layer file"),
    ],
)
def test_bad_input_is_one_message(folder, evenflow, arguments, message):
    result = evenflow("quick-tune", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_solver_proves_a_plan_no_longer_than_the_rules(folder, evenflow, monkeypatch):
    outcomes = []
    solved = solve.solve
    monkeypatch.setattr(solve, "solve", lambda *args, **rest: outcomes.append(solved(*args, **rest)) or outcomes[-1])
    result = evenflow(
        "quick-tune", EXAMPLE, "--ranks", 4, "--microbatches", 8, "--memory", "42GB", "--time-limit", 20,
        "--json", "tuned.json",
    )  # fmt: skip
    assert result.exit_code == 0
    written = json.loads((folder / "tuned.json").read_text())
    assert written["steps"][-1]["fits"]
    assert written["recommended"]["lower_bound_ms"] <= written["rule_of_thumb"]["makespan_ms"]
    if outcomes[0].status is Status.OPTIMAL:
        assert written["recommended"]["makespan_ms"] <= written["rule_of_thumb"]["makespan_ms"] * (1 + 2e-6)
