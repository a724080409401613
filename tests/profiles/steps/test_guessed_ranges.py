"""Timelines that name no action: autograd and messages tell them, where only one reading is possible."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given, settings

from evenflow.errors import InputError
from evenflow.profiles.steps import ObservedStep, read_measured_step, read_step
from evenflow.simulate import Timeline
from tests.profiles.steps.builders import npu_events, timelines, unnamed_events
from tests.profiles.steps.test_action_ranges import write_kineto
from tests.profiles.steps.test_records import assert_same, equal, refused
from tests.thoroughness import examples

STEP_NS = 10**8


def write(folder: Path, timeline: Timeline, *, steps: int = 1, ranks: list[int] | None = None) -> Path:
    for rank in range(timeline.schedule.num_ranks) if ranks is None else ranks:
        write_kineto(folder / f"rank{rank}.json", unnamed_events(timeline, rank, step_ns=STEP_NS, steps=steps))
    return folder


@settings(max_examples=examples(25))
@given(timelines(families=("1f1b", "f-then-b", "interleaved")))
def test_what_autograd_launched_is_the_step(timeline: Timeline):
    assume(timeline.schedule.num_ranks > 1)
    with TemporaryDirectory() as folder:
        step = read_measured_step(write(Path(folder), timeline, steps=2))
        assert step is not None
        assert_same(step, timeline)
        told = next(note for note in step.notes if note.startswith("Guessed:"))
        assert "in the order of" in told
        assert told.endswith("on every rank: sure.")


@settings(max_examples=examples(15))
@given(timelines(families=("1f1b", "f-then-b", "interleaved")))
def test_names_of_kernels_tell_where_autograd_is_not_recorded(timeline: Timeline):
    assume(timeline.schedule.num_ranks > 1)
    with TemporaryDirectory() as folder:
        for rank in range(timeline.schedule.num_ranks):
            events = unnamed_events(timeline, rank, step_ns=STEP_NS, has_autograd=False)
            write_kineto(Path(folder) / f"rank{rank}.json", events)
        step = read_measured_step(Path(folder))
        assert step is not None
        assert_same(step, timeline)
        assert any("told by the names of kernels, and the messages between" in note for note in step.notes)


@settings(max_examples=examples(15))
@given(timelines(families=("1f1b", "interleaved")))
def test_messages_of_an_npu_end_actions(timeline: Timeline):
    """They have no launch of their own: what runs behind them tells when they were."""
    assume(timeline.schedule.num_ranks > 1)
    with TemporaryDirectory() as folder:
        for rank in range(timeline.schedule.num_ranks):
            path = Path(folder) / f"trace_view{rank}.json"
            path.write_text(json.dumps(npu_events(timeline, rank)))
        step = read_measured_step(Path(folder))
        assert step is not None
        assert_same(step, timeline)
        assert any(spans.size for spans in step.communication)


def test_one_rank_of_several_is_shown_as_it_was_recorded(tmp_path: Path):
    timeline = equal()
    step = read_step(write(tmp_path, timeline, ranks=[0]))
    assert isinstance(step, ObservedStep)
    own = slice(*timeline.schedule.rank_starts[:2])
    first = int(timeline.start_ns[own].min())
    assert np.array_equal(step.start_ns, timeline.start_ns[own] - first)
    assert np.array_equal(step.end_ns, timeline.end_ns[own] - first)
    assert any("no whole step" in note for note in step.notes)
    assert "must have the traces of all ranks" in refused(tmp_path)


def test_an_order_of_no_schedule_is_refused(tmp_path: Path):
    """The second rank has another order than any schedule with one chunk or several."""
    timeline = equal()
    write(tmp_path, timeline)
    (tmp_path / "rank1.json").write_bytes((tmp_path / "rank0.json").read_bytes())
    with pytest.raises(InputError, match="must have forwards and backwards in the order of one schedule"):
        read_step(tmp_path)


def test_ranks_without_messages_are_no_pipeline(tmp_path: Path):
    """Both ranks do all of a step by themselves, at the same time, as replicas do."""
    one = equal(ranks=1)
    for rank in range(2):
        write_kineto(tmp_path / f"rank{rank}.json", unnamed_events(one, 0, step_ns=STEP_NS))
    step = read_step(tmp_path)
    assert isinstance(step, ObservedStep)
    assert step.schedule.num_ranks == 2
    assert np.array_equal(step.start_ns[: len(step.start_ns) // 2], step.start_ns[len(step.start_ns) // 2 :])


@pytest.mark.parametrize("named", [True, False])
def test_exchanges_of_tokens_are_no_messages_where_the_host_names_them(tmp_path: Path, named: bool):
    """NCCL has one kernel for both: replicas that exchange tokens are no pipeline, ranks that send messages are one."""
    one = equal(ranks=1)
    times = {"ts": 500, "dur": 20, "pid": 5, "tid": 1}
    for rank in range(2):
        events = unnamed_events(one, 0, step_ns=STEP_NS)
        events += [
            {"ph": "X", "cat": "user_annotation", "name": "nccl:all_to_all" if named else "moe", **times},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 9999}, **times},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "args": {"correlation": 9999}, **times},
        ]
        write_kineto(tmp_path / f"rank{rank}.json", events)
    if named:
        assert isinstance(read_step(tmp_path), ObservedStep)
    else:
        with pytest.raises(InputError, match="in the order of one schedule"):
            read_step(tmp_path)
