"""``--explain``: the row beside the first, in words and in the file."""

import json

import pytest

from tests.cli.verbs.tune.test_tune_command import ASKED

QUICK = (*ASKED, "--time-limit", 60, "--fix", "zero=1,microbatch=2,context=1", "--max-tensor", 2, "--schedules", "1f1b")


def test_a_row_is_explained(evenflow, folder):
    result = evenflow(*QUICK, "--explain", 2, "--json", "tune.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "tune.json").read_text())
    first, other = found["ranked"][:2]
    told = found["explained"]
    assert told["rank"] == 2
    for field, row in (("first_ms", first), ("other_ms", other)):
        assert sum(part[field] for part in told["parts"]) == pytest.approx(row["step_ms"])
    for axis, (ours, theirs) in told["changed"].items():
        if axis in first:
            assert (first[axis], other[axis]) == (ours, theirs)
    assert told["other_peak_mb"] == pytest.approx(other["memory"]["total_mb"])
    assert f"#2 takes {other['step_ms'] - first['step_ms']:.1f} ms longer than #1" in result.stdout
    assert "exposed ms" in result.stdout


def test_a_row_that_is_not_there(evenflow, folder):
    result = evenflow(*QUICK, "--fix", "tensor=1,pipeline=1", "--explain", 5)
    assert result.exit_code == 0, result.output
    assert "--explain 5: the ranking has only 1 row" in result.stdout


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (11, "--explain must be at most the 10 rows of the table, got 11; add --rows 11"),
        (1, "--explain must be from 2: row 1 is the first, got 1"),
        (0, "--explain must be an integer from 1"),
    ],
)
def test_a_row_that_cannot_be_is_refused_before_the_search(evenflow, number, message):
    result = evenflow(*ASKED, "--explain", number)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_one_step_away(evenflow, folder):
    result = evenflow(*QUICK, "--neighbours", "--json", "tune.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "tune.json").read_text())
    near = {(one["axis"], one["then"]): one for one in found["neighbours"]}
    assert len(near) == len(found["neighbours"]) >= 4
    for (axis, value), one in near.items():
        assert one["now"] == found["ranked"][0].get(axis, one["now"]) != value
        if one["step_ms"] is not None:
            assert one["values"][axis] == value
            assert one["more_share"] == pytest.approx(one["step_ms"] / found["step_ms"] - 1)
            assert f"{one['step_ms']:,.1f}" in result.stdout
    assert "one step away from #1" in result.stdout


@pytest.mark.parametrize(
    ("asked", "share"),
    [((), 1), (("--explain", 2), 1), (("--neighbours",), 6 / 8), (("--neighbours", "--pareto"), 6 / 11)],
)
def test_the_ranking_leaves_time_for_what_is_asked_after_it(evenflow, monkeypatch, asked, share):
    from evenflow.cli.verbs.tune import tune_command

    limits = []

    def told(question, **keywords):
        limits.append(keywords["time_limit_s"])
        return search(question, **{**keywords, "time_limit_s": 4})

    search = tune_command.search
    monkeypatch.setattr("evenflow.solve.time_left.now_s", lambda: 0.0)
    monkeypatch.setattr(tune_command, "search", told)
    assert evenflow(*QUICK, *asked).exit_code == 0
    assert limits == [pytest.approx(60 * share)]


def test_what_would_fit_does(evenflow, folder):
    result = evenflow(*QUICK, "--memory", "600MB", "--json", "tune.json")
    assert result.exit_code == 3, result.output
    assert "no configuration fits" in result.stderr
    needed = json.loads((folder / "tune.json").read_text())["needed"]
    size = next(word for word in result.stderr.split() if word.endswith("MB"))
    assert needed["memory_at_least_mb"] <= needed["memory_mb"] <= float(size.removesuffix("MB"))
    assert evenflow(*QUICK, "--memory", size).exit_code == 0
    if needed["devices"] is not None:
        words = [str(needed["devices"]) if word == 8 and before == "--gpus" else word
                 for before, word in zip(("", *QUICK), QUICK, strict=False)]  # fmt: skip
        assert evenflow(*words, "--memory", "600MB").exit_code == 0
