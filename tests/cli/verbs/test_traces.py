"""``--trace`` of every verb that has it: a Chrome trace of the very step that the verb is about."""

import json

import pytest

from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_file import read_plan_file
from evenflow.simulate import simulate
from tests.export.trace_reader import ReadTrace, read_trace

SIZES = ("--ranks", 2, "--microbatches", 3, "--memory", "300MB")


def written(folder, name: str = "trace.json") -> ReadTrace:
    text = (folder / name).read_text(encoding="utf-8")
    assert "evenflow" in json.loads(text)["written_by"]
    return read_trace(text)


def end_ns(trace: ReadTrace) -> int:
    return max(each.end_ns for each in trace.slices)


@pytest.mark.usefixtures("fake_solver")
def test_plan_and_simulate_trace_the_same_step(evenflow, folder):
    planned = evenflow("plan", "tiny.json", *SIZES, "--json", "plan.json", "--trace", "trace.json")
    assert planned.exit_code == 0
    assert "trace.json" in planned.stdout
    makespan_ns = simulate(read_layer_file("tiny.json"), read_plan_file("plan.json")).makespan_ns
    assert end_ns(written(folder)) == makespan_ns
    assert evenflow("simulate", "plan.json", "--memory", "300MB", "--trace", "again.json").exit_code == 0
    assert (folder / "again.json").read_bytes() == (folder / "trace.json").read_bytes()
    assert {process for process, _ in written(folder).counters} == {1, 2}


@pytest.mark.usefixtures("fake_solver")
def test_compared_plans_are_groups_of_processes(evenflow, folder):
    result = evenflow("compare", "tiny.json", *SIZES, "--trace", "trace.json")
    assert result.exit_code == 0
    assert "trace.json" in result.stdout
    groups = [name.split(": ")[0] for name in written(folder).processes.values()]
    assert len(set(groups)) >= 2
    assert all(groups.count(name) == 2 for name in groups)


def test_a_family_is_traced(evenflow, folder):
    result = evenflow("schedule", "show", "zb-h1", "--ranks", 2, "--microbatches", 3, "--trace", "trace.json")
    assert result.exit_code == 0
    assert {each.name[0] for each in written(folder).slices if each.category != "idle"} == set("FIW")


def test_a_trace_of_evenflow_is_replaced_and_no_other_file(evenflow, folder):
    show = ("schedule", "show", "1f1b", "--ranks", 2, "--trace", "trace.json", "--microbatches")
    assert evenflow(*show, 3).exit_code == 0
    before = (folder / "trace.json").read_text(encoding="utf-8")
    assert evenflow(*show, 4).exit_code == 0
    changed = before.replace("F0", "FO", 1)
    for content in (changed, '{"traceEvents": []}'):
        (folder / "trace.json").write_text(content, encoding="utf-8")
        refused = evenflow(*show, 3)
        assert refused.exit_code == 2
        assert "--trace" in refused.stderr
        assert (folder / "trace.json").read_text(encoding="utf-8") == content


def test_a_trace_is_the_same_in_any_language(evenflow, folder):
    for language in ("en", "zh"):
        show = ("schedule", "show", "1f1b", "--ranks", 2, "--microbatches", 3, "--trace", f"{language}.json")
        assert evenflow("--lang", language, *show).exit_code == 0
    assert (folder / "en.json").read_bytes() == (folder / "zh.json").read_bytes()
