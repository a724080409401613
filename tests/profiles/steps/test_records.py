"""Steps of Primus and of the JSON form: what was simulated comes back, and whatever is wrong is one message."""

import json
import re
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.equal_stages import equal_stages
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.profiles.steps import MeasuredStep, is_step_file, read_measured_step, step_of_file
from evenflow.schedule import FAMILIES, make_schedule
from evenflow.simulate import Timeline
from tests.paths import ROOT
from tests.profiles.steps.builders import primus_iteration, step_fields, timelines, write_primus

OFFSETS = st.lists(st.integers(0, 10**8), min_size=4, max_size=4)
MEGATRON = ("1f1b", "interleaved")


def equal(family: str = "1f1b", ranks: int = 2, microbatches: int = 4) -> Timeline:
    chunks = 1 if family in ("1f1b", "zb-h1") else 2
    schedule = make_schedule(family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    return equal_stages(schedule, forward_ns=1_000_000, backward_ns=2_000_000).timeline


def assert_same(step: MeasuredStep, timeline: Timeline) -> None:
    assert step.timeline.schedule.same_order(timeline.schedule)
    assert np.array_equal(step.timeline.start_ns, timeline.start_ns)
    assert np.array_equal(step.timeline.end_ns, timeline.end_ns)
    assert step.timeline.makespan_ns == timeline.makespan_ns
    assert step.timeline.schedule.name in FAMILIES, "the order is recognised"


@given(timelines())
def test_a_step_of_primus_comes_back(timeline: Timeline):
    with TemporaryDirectory() as folder:
        step = read_measured_step(write_primus(Path(folder), timeline, iterations=4))
        assert step is not None
        assert_same(step, timeline)
        assert step.name == "iteration 3"
        assert step.peak_bytes == tuple(round((10.5 + rank) * 2**30) for rank in range(timeline.schedule.num_ranks))
        for name in ("config.json", "pp_rank_0.json"):
            again = read_measured_step(Path(folder) / name)
            assert again is not None
            assert_same(again, timeline)


@given(timelines(families=MEGATRON))
def test_megatrons_schedules_record_times_alone(timeline: Timeline):
    with TemporaryDirectory() as folder:
        step = read_measured_step(write_primus(Path(folder), timeline, names=False))
        assert step is not None
        assert_same(step, timeline)
        assert any("in the order of Megatron-LM" in note for note in step.notes)


@given(timelines(), OFFSETS)
def test_a_step_of_any_script_comes_back(timeline: Timeline, offsets: list[int]):
    fields = as_fields(json.loads(json.dumps(step_fields(timeline))), file="step.json")
    assert is_step_file(fields)
    assert_same(step_of_file(fields), timeline)
    # By clocks of their own, ranks still do the same in the same order, and nothing starts before its input has ended.
    moved = step_of_file(as_fields(step_fields(timeline, offsets_ns=offsets), file="step.json")).timeline
    assert moved.schedule.same_order(timeline.schedule)
    assert np.array_equal(moved.end_ns - moved.start_ns, timeline.end_ns - timeline.start_ns)
    inputs = moved.graph.inputs
    waits = inputs >= 0
    assert (moved.start_ns[waits] >= moved.end_ns[inputs[waits]]).all()
    assert moved.start_ns.min() == 0


def test_of_several_steps_the_median_is_taken():
    fields = step_fields(equal())
    slow, slower = (deepcopy(fields["steps"]) for _ in range(2))
    for number, (steps, factor) in enumerate(((slow, 2), (slower, 3)), start=8):
        for step in steps:
            step["step"] = number
            for key in ("forward_ms", "backward_ms"):
                step[key] = [[start * factor, end * factor] for start, end in step[key]]
    fields["steps"] += slow + slower
    step = step_of_file(as_fields(fields, file="step.json"))
    assert (step.name, step.timeline.makespan_ns) == ("step 8", 2 * equal().makespan_ns)


def test_an_action_that_was_recorded_with_another_gets_half():
    fields = step_fields(equal(microbatches=2))
    last = fields["steps"][1]  # F0 B0 F1 B1 on the last rank: F1 and B0 as one
    last["forward_ms"][1] = last["backward_ms"][0] = [2.0, 5.0]
    step = step_of_file(as_fields(fields, file="step.json"))
    schedule = step.timeline.schedule
    spans = {
        str(action): (int(step.timeline.start_ns[index]), int(step.timeline.end_ns[index]))
        for index, action in enumerate(schedule.order(1), start=schedule.rank_starts[1])
    }
    assert spans["1F1"][1] == spans["1B0"][0]
    assert spans["1B0"][1] - spans["1F1"][0] == 3_000_000
    assert any(note.startswith("1 pair") for note in step.notes)


def test_the_last_kernels_may_run_under_the_next_action():
    fields = step_fields(equal())
    fields["steps"][0]["forward_ms"][0][1] += 0.05
    timeline = step_of_file(as_fields(fields, file="step.json")).timeline
    assert (timeline.start_ns[1], timeline.end_ns[1]) == (1_050_000, 2_000_000)


SPOILED: list[tuple[str, Any, str]] = [
    ("ranks", 0, "step.json: ranks must be an integer from 1 to 1,000, got 0"),
    ("ranks", 10**30, "ranks must be an integer from 1 to 1,000"),
    ("microbatches", 3, "order.0.forward must be a list of [microbatch, chunk], below 3 and 1"),
    ("microbatches", 2_000_000, "must have 2000000 forwards and backwards"),
    ("chunks", 2, "must have 8 forwards and backwards"),
    ("steps", [], "must have a step that each of the 2 ranks recorded"),
    ("steps.1.rank", 0, "rank must be there once for each step"),
    ("steps.1.rank", 2, "steps[1].rank must be an integer from 0 to 1, got 2"),
    ("steps.1.memory_gb", "many", "memory_gb must be a number"),
    ("steps.1.forward_ms", None, "forward_ms must be a list of [start, end] in ms"),
    ("steps.1.forward_ms.0", [5, 4], "forward_ms must be a list of [start, end] in ms, got [5, 4]"),
    ("steps.1.forward_ms.0", [0, float("inf")], "must be a list of [start, end] in ms"),
    ("steps.1.forward_ms.0", [0, 10**400], "must be a list of [start, end] in ms"),
    ("steps.1.forward_ms.1", [1.5, 2.5], "must have the actions of a rank one after the other"),
    ("order.1.forward", [[0, 0]] * 3, "forward_ms must have as many times as the order has actions (3)"),
    ("order.1.forward", [[0, 0]] * 4, "must run"),
    ("order.1.forward.0", [9, 0], "order.1.forward"),
    ("order.1", None, "order.1 must be an object"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "message"), SPOILED)
def test_a_spoiled_step_file_is_one_message(key: str, value: Any, message: str):
    fields: Any = json.loads(json.dumps(step_fields(equal())))
    *path, last = key.split(".")
    inner = fields
    for name in path:
        inner = inner[int(name) if isinstance(inner, list) else name]
    inner[int(last) if isinstance(inner, list) else last] = value
    with pytest.raises(InputError) as refused:
        step_of_file(as_fields(fields, file="step.json"))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as error:
        read_measured_step(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


PRIMUS_SPOILED: list[tuple[str, Any, str]] = [
    ("config.json/pp_size", 3, "pp_rank_2.json"),
    ("config.json/pp_size", 0, "pp_size must be an integer from 1 to 1,000"),
    ("config.json/vp_size", 2, "must have 8 forwards and backwards"),
    ("config.json/num_mbs", "8", "num_mbs must be an integer"),
    ("pp_rank_1.json/1", None, "must be an object of named fields"),
    ("pp_rank_1.json/1/fwd_start", [1, 2], "fwd_end must have as many times as fwd_start"),
    ("pp_rank_1.json/1/fwd_end", [0, 0, 0, 0], "fwd_end must not be before the start"),
    ("pp_rank_1.json/1/bwd_start", "often", "bwd_start must be a list of times in ms"),
    ("pp_rank_1.json/1/fwd_minibatch", [0, 1, 2, 4], "fwd_minibatch must be a list of 4 integers from 0 to 3"),
    ("pp_rank_1.json/1/fwd_minibatch", [0, 1, 2, 2], "must run"),
    ("pp_rank_1.json/1/fwd_chunk", [1, 1, 1, 1], "fwd_chunk must be a list of 4 integers"),
    ("pp_rank_0.json/1/total", None, "total must be"),
    ("pp_rank_0.json/1/memory", -1, "memory must be"),
]


@pytest.mark.parametrize(("key", "value", "message"), PRIMUS_SPOILED)
def test_a_spoiled_dump_is_one_message(tmp_path: Path, key: str, value: Any, message: str):
    write_primus(tmp_path, equal())
    name, *path, last = key.split("/")
    fields = json.loads((tmp_path / name).read_text())
    inner = fields
    for part in path:
        inner = inner[part]
    inner[last] = value
    (tmp_path / name).write_text(json.dumps(fields))
    assert message in refused(tmp_path)


def test_files_that_are_cut_off_or_of_different_runs_are_one_message(tmp_path: Path):
    write_primus(tmp_path, equal())
    whole = (tmp_path / "pp_rank_1.json").read_text()
    (tmp_path / "pp_rank_1.json").write_text(whole[:-9])
    assert "pp_rank_1.json" in refused(tmp_path)
    (tmp_path / "pp_rank_1.json").write_text(json.dumps({"2": primus_iteration(equal(), 1)}))
    assert "must have an iteration that every rank recorded" in refused(tmp_path)
    (tmp_path / "pp_rank_1.json").unlink()
    assert "pp_rank_1.json" in refused(tmp_path)


def test_old_dumps_have_other_names(tmp_path: Path):
    write_primus(tmp_path, equal())
    fields = json.loads((tmp_path / "config.json").read_text())
    fields["vpp_size"], fields["micro_batches"] = fields.pop("vp_size"), fields.pop("num_mbs")
    (tmp_path / "config.json").write_text(json.dumps(fields))
    step = read_measured_step(tmp_path)
    assert step is not None
    assert_same(step, equal())


def test_the_file_in_the_documentation_is_read():
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    step = step_of_file(as_fields(json.loads(block), file="step.json"))
    assert step.peak_bytes == (round(40.5 * 2**30), 38 * 2**30)
    assert step.shifts_ns == (0, 10_000_000), "rank 1 cannot have begun before rank 0's first forward had ended"
    assert step.timeline.makespan_ns == 91_000_000
