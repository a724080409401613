"""``evenflow plan --target``: which other option allows a shorter plan."""

import json
from itertools import chain

import pytest

LONGER = ("--microbatches", 4, "--memory", "235MB", "--target", "megatron", "--time-limit", 12)


def with_option(folder, evenflow, *options):
    result = evenflow("plan", "tiny.json", "--ranks", 2, *LONGER, *options, "--json", "plan.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return result, json.loads((folder / "plan.json").read_text())


@pytest.mark.parametrize(("chunks", "other_option"), [(1, "--target megatron-adapter"), (4, "--chunks 1")])
def test_a_shorter_plan_that_one_other_option_allows_is_named(folder, evenflow, chunks, other_option):
    result, written = with_option(folder, evenflow, "--chunks", chunks)
    steps = [other["makespan_ms"] for other in written["shorter_with"]]
    assert steps == sorted(steps)
    assert steps[-1] < written["makespan_ms"]
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("shorter: ")]
    first = written["shorter_with"][0]
    assert line.startswith(f"shorter: {first['options']} takes {first['makespan_ms']:,.1f} ms (")
    assert other_option in {other["options"] for other in written["shorter_with"]}
    for other in written["shorter_with"]:  # what is said of an option is what it gives
        changed_options = {"--chunks": str(chunks)} | dict([other["options"].split()])
        _, changed = with_option(folder, evenflow, *chain.from_iterable(changed_options.items()))
        assert changed["makespan_ms"] <= other["makespan_ms"]


def test_no_option_is_named_that_saves_nothing(folder, evenflow):
    _, written = with_option(folder, evenflow, "--chunks", 1, "--memory", "1GB", "--microbatches", 1)
    assert "shorter_with" not in written or all(
        other["makespan_ms"] < written["makespan_ms"] for other in written["shorter_with"]
    )
    quiet = evenflow("plan", "tiny.json", "--ranks", 2, *LONGER, "--chunks", 1, "--quiet")
    assert "shorter: " not in quiet.stdout
