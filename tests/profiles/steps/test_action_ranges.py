"""Timelines of profilers whose ranges name the actions: what ran comes back, as the device ran it."""

import gzip
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.profiles.steps import ObservedStep, read_measured_step, read_step
from evenflow.schedule import Op
from evenflow.simulate import Timeline
from tests.paths import ROOT
from tests.profiles.steps.builders import kineto_events, named_actions, timelines, write_report
from tests.profiles.steps.test_records import assert_same, equal, refused
from tests.profiles.traces.rows import SCOPE_PROCESS, row
from tests.thoroughness import examples

FIXTURES = Path(__file__).parent / "fixtures"


def write_kineto(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@settings(max_examples=examples(30))
@given(timelines())
def test_kernels_of_every_range_are_its_action(timeline: Timeline):
    with TemporaryDirectory() as folder:
        for rank in range(timeline.schedule.num_ranks):
            once = named_actions(timeline, rank, offset_ns=10**6)
            later = named_actions(timeline, rank, offset_ns=10**9)
            write_kineto(Path(folder) / f"rank{rank}.json", kineto_events(once + later))
        step = read_measured_step(Path(folder))
        assert step is not None
        assert step.name == "step 2 of the trace"
        assert_same(step, timeline)


@settings(max_examples=examples(30))
@given(timelines())
def test_a_report_of_all_processes_is_a_step(timeline: Timeline):
    with TemporaryDirectory() as folder:
        ranks = [named_actions(timeline, rank, offset_ns=10**6) for rank in range(timeline.schedule.num_ranks)]
        step = read_measured_step(write_report(Path(folder) / "report.sqlite", ranks[::-1]))
        assert step is not None
        assert_same(step, timeline)


def test_ranges_without_a_stage_are_those_of_the_file(tmp_path: Path):
    timeline = equal()
    for rank in range(2):
        actions = [
            (f"{'Forward' if name[4] == 'F' else 'Backward'} {name[5:]}", start, end)
            for name, start, end in named_actions(timeline, rank, offset_ns=10**6)
        ]
        write_kineto(tmp_path / f"rank{rank}.json", kineto_events(actions))
    step = read_measured_step(tmp_path)
    assert step is not None
    assert_same(step, timeline)


def test_what_torch_records_of_zero_bubbles(tmp_path: Path):
    """Two ranks with two stages each, 4 microbatches, two steps; on a CPU, so operators are the work."""
    for rank in range(2):
        shutil.copy(FIXTURES / f"zero_bubble_rank{rank}.json.gz", tmp_path)
    step = read_measured_step(tmp_path)
    assert step is not None
    schedule, timeline = step.timeline.schedule, step.timeline
    assert (schedule.num_ranks, schedule.num_chunks, schedule.num_microbatches) == (2, 2, 4)
    assert schedule.used_ops == (Op.F, Op.I, Op.W)
    assert [str(action) for action in schedule.order(1)][:6] == ["1F0", "1F1", "3F0", "3I0", "3F1", "3I1"]
    assert step.shifts_ns == (0, 0), "both are on one machine, with one clock"
    inputs = timeline.graph.inputs
    waits = inputs >= 0
    assert (timeline.start_ns[waits] >= timeline.end_ns[inputs[waits]]).all()
    # A person's reading of the file: the range of the second 1F0 of rank 1, and the operators in it.
    with gzip.open(FIXTURES / "zero_bubble_rank1.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    own = [event for event in events if event.get("name") == "PP:1F0"][1]
    operators = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "cpu_op"
        and own["ts"] <= event["ts"] < own["ts"] + own["dur"]
        and not event["name"].startswith(("c10d::", "gloo:"))
    ]
    took_ns = 1000 * (max(end for _, end in operators) - min(start for start, _ in operators))
    first = schedule.rank_starts[1]
    assert timeline.end_ns[first] - timeline.start_ns[first] == pytest.approx(took_ns, abs=2)
    assert np.all(timeline.end_ns >= timeline.start_ns)


def events_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return list(json.load(file)["traceEvents"])


ONE_F_ONE_B = {0: "1f1b_pid4000.pt.trace.json.gz", 1: "1f1b_pid3983.pt.trace.json.gz"}
"""Two ranks of torch's Schedule1F1B with stacks, 4 microbatches, two steps; what really ran as ranges "truth F3"."""


def test_calls_of_schedule_1f1b_are_actions(tmp_path: Path):
    """The files are numbered by process, against the order of their ranks, which they record."""
    for name in ONE_F_ONE_B.values():
        shutil.copy(FIXTURES / name, tmp_path)
    step = read_measured_step(tmp_path)
    assert step is not None
    assert step.name == "step 2 of the trace"
    timeline, schedule = step.timeline, step.timeline.schedule
    assert (schedule.num_ranks, schedule.num_chunks, schedule.num_microbatches) == (2, 1, 4)
    for rank, name in ONE_F_ONE_B.items():
        events = events_of(FIXTURES / name)
        truth = sorted((event for event in events if event["name"].startswith("truth")), key=lambda event: event["ts"])[
            :8
        ]
        assert [f"{rank}{event['name'][6:]}" for event in truth] == [str(action) for action in schedule.order(rank)]
        for index, true in enumerate(truth, start=schedule.rank_starts[rank]):
            took_ns = int(timeline.end_ns[index] - timeline.start_ns[index])
            losses = [e["dur"] for e in events if "_maybe_compute_loss" in e["name"] and e["ts"] > true["ts"]]
            assert 0 < took_ns < 1000 * (true["dur"] + ("F" in true["name"]) * losses[0] + 50)
    loss = [e for e in events_of(FIXTURES / ONE_F_ONE_B[1]) if e["name"] == "aten::mse_loss"][4]
    assert timeline.end_ns[schedule.rank_starts[1]] - timeline.start_ns[schedule.rank_starts[1]] > 1000 * loss["dur"]


def test_one_rank_without_names_is_no_whole_step(tmp_path: Path):
    events = [event for event in events_of(FIXTURES / ONE_F_ONE_B[0]) if event.get("cat") != "python_function"]
    message = refused(write_kineto(tmp_path / "rank0.json", events))
    assert "must have the traces of all ranks that send each other messages, and has that of one" in message


def test_calls_in_another_order_are_not_those_of_one_stage(tmp_path: Path):
    shutil.copy(FIXTURES / ONE_F_ONE_B[0], tmp_path)
    assert "must have the calls of Schedule1F1B in its order" in refused(tmp_path)


def test_ranks_that_are_missing_are_said(tmp_path: Path):
    shutil.copy(FIXTURES / ONE_F_ONE_B[1], tmp_path)
    step = read_measured_step(tmp_path)
    assert step is not None
    assert f"{tmp_path}: no trace of these ranks: 0" in step.notes


def test_two_traces_of_one_recorded_rank_are_refused(tmp_path: Path):
    for copy in "ab":
        shutil.copy(FIXTURES / ONE_F_ONE_B[0], tmp_path / f"{copy}.json.gz")
    assert "must have one trace of each rank; of rank 0 there are 2" in refused(tmp_path)


def test_a_trace_of_one_rank_of_two_says_what_is_missing():
    assert "must have all stages from 0 on" in refused(FIXTURES / "zero_bubble_rank0.json.gz")


def test_two_traces_of_one_rank_are_refused(tmp_path: Path):
    for name in ("a", "b"):
        write_kineto(tmp_path / f"{name}.json", kineto_events(named_actions(equal(), 0, offset_ns=10**6)))
    assert "must have every stage in one trace" in refused(tmp_path)


def test_a_trace_without_ranges_says_what_to_record(tmp_path: Path):
    event = {"ph": "X", "cat": "user_annotation", "name": "layer 3", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    message = refused(write_kineto(tmp_path / "rank0.json", [event]))
    assert "must have ranges that name the actions, such as PP:2F3; it has 'layer' (1)" in message
    assert "record_function" in message
    assert "does so itself but for Schedule1F1B, whose calls torch.profiler records with with_stack=True" in message


def mindspore_rows(timeline: Timeline, rank: int) -> list[dict[str, Any]]:
    """Rows of scopes: passes on thread 0, neighbours of one name as one row, and two layers in each pass below."""
    schedule = timeline.schedule
    events: list[dict[str, Any]] = [SCOPE_PROCESS]
    merged: list[list[Any]] = []
    for index in range(*schedule.rank_starts[rank : rank + 2]):
        start, end = int(timeline.start_ns[index]), int(timeline.end_ns[index])
        is_forward = schedule.ops[index] == Op.F
        name = "Default" if is_forward else "Gradients"
        middle = (start + end) // 2
        layers = ("0-LLamaDecodeLayer", "1-LLamaDecodeLayer")[:: 1 if is_forward else -1]
        events += [
            row(layer, begin // 1000, (stop - begin) // 1000, tid=7)
            for layer, begin, stop in zip(layers, (start, middle), (middle, end), strict=True)
        ]
        if merged and merged[-1][0] == name and merged[-1][2] == start:
            merged[-1][2] = end
        else:
            merged.append([name, start, end])
    return events + [row(name, start // 1000, (end - start) // 1000, tid=0) for name, start, end in merged]


def test_scopes_of_mindspore_are_passes(tmp_path: Path):
    timeline = equal()
    for rank in range(2):
        (tmp_path / f"trace_view{rank}.json").write_text(json.dumps(mindspore_rows(timeline, rank)))
    step = read_measured_step(tmp_path)
    assert step is not None
    assert_same(step, timeline)
    assert any("scopes Default and Gradients of MindSpore" in note for note in step.notes)


def test_stages_of_some_ranks_are_shown_as_they_were_recorded():
    step = read_step(ROOT / "examples" / "timelines" / "llama2_175b")
    assert isinstance(step, ObservedStep)
    assert step.schedule.num_ranks == 3


@pytest.mark.parametrize("changed", ["lost", "twice", "no work"])
def test_steps_that_are_not_whole_are_one_message(tmp_path: Path, changed: str):
    for rank in range(2):
        events = kineto_events(named_actions(equal(), rank, offset_ns=10**6))
        if changed == "lost" and rank:
            events = [event for event in events if event["name"] != "PP:1B3"]
        if changed == "twice" and rank:
            events += kineto_events(named_actions(equal(), rank, offset_ns=10**9)[:1])
        if changed == "no work":
            events = [event for event in events if event["name"] != "gemm"]
        write_kineto(tmp_path / f"rank{rank}.json", events)
    with pytest.raises(InputError) as error:
        read_measured_step(tmp_path)
    expected = {
        "lost": "must have an action for each of 2 stages and 4 microbatches",
        "twice": "must have every action equally often",
        "no work": "must have work that was launched in the ranges",
    }
    assert expected[changed] in str(error.value) or (changed == "lost" and "once" in str(error.value))


def test_other_files_are_somebody_elses(tmp_path: Path):
    page = '<!doctype html><script>{"traceEvents": []}</script>'
    for name, text in (("plan.json", '{"layers": [[1]]}'), ("page.html", page)):
        (tmp_path / name).write_text(text)
        assert read_measured_step(tmp_path / name) is None
    assert read_measured_step(tmp_path / "none.json") is None
