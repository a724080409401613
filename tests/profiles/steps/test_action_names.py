"""Every way in which programs name their actions gives the same step."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.profiles.steps import ObservedStep, naming_of_pattern, read_measured_step, read_step
from evenflow.schedule import Action, Op, Schedule
from evenflow.simulate import Timeline
from tests.profiles.steps.builders import kineto_events, named_actions, timelines
from tests.profiles.steps.test_action_ranges import write_kineto
from tests.profiles.steps.test_records import assert_same, equal, refused
from tests.thoroughness import examples

WORDS = {Op.F: "forward", Op.B: "backward"}


def renamed(folder: Path, timeline: Timeline, name: Callable[[Action, int, int], str], category: str) -> Path:
    """Traces in which `name` names every action, by it, its chunk and its rank."""
    schedule = timeline.schedule
    for rank in range(schedule.num_ranks):
        actions = [
            (name(action, int(schedule.stage_chunks[action.stage]), rank), start, end)
            for action, (_, start, end) in zip(
                schedule.order(rank), named_actions(timeline, rank, offset_ns=10**6), strict=True
            )
        ]
        events = kineto_events(actions)
        for event in events:
            if event["cat"] == "user_annotation":
                event["cat"] = category
        write_kineto(folder / f"rank{rank}.json", events)
    return folder


def letter(action: Action, splits: bool) -> str:
    """Zero-bubble schedules call the input gradient B."""
    return "B" if splits and action.op == Op.I else action.op.name


@settings(max_examples=examples(20))
@given(timelines())
def test_letters_with_microbatch_and_chunk(timeline: Timeline):
    splits = timeline.schedule.splits_backward
    with TemporaryDirectory() as folder:
        renamed(
            Path(folder), timeline, lambda action, chunk, _rank: f"{letter(action, splits)}{action.microbatch}.{chunk}",
            "user_annotation",
        )  # fmt: skip
        step = read_measured_step(Path(folder))
        assert step is not None
        assert_same(step, timeline)
        assert any("told by ranges such as F3; each says its microbatch" in note for note in step.notes)


@pytest.mark.parametrize("family", ["1f1b", "interleaved"])
@pytest.mark.parametrize(
    ("pattern", "category", "title"),
    [
        ("megatron/core/pipeline_parallel/schedules.py(402): {}_step", "python_function", "Megatron-LM"),
        ("/opt/deepspeed/runtime/pipe/engine.py(661): _exec_{}_pass", "python_function", "DeepSpeed"),
        ("## {} ##", "user_annotation", "ranges named forward and backward"),
    ],
)
def test_calls_and_words_are_counted(tmp_path: Path, pattern: str, category: str, title: str, family: str):
    timeline = equal(family)
    renamed(tmp_path, timeline, lambda action, _chunk, _rank: pattern.format(WORDS[action.op]), category)
    step = read_measured_step(tmp_path)
    assert step is not None
    assert_same(step, timeline)
    told = next(note for note in step.notes if "told by" in note)
    assert title in told
    assert f"in the order of {family} on every rank: sure" in told


@settings(max_examples=examples(15))
@given(timelines())
def test_a_regular_expression_names_the_actions(timeline: Timeline):
    naming = naming_of_pattern(r"\[r(?P<rank>\d+)\] (?P<op>[A-Z]) of (?P<microbatch>\d+) on (?P<stage>\d+)")
    with TemporaryDirectory() as folder:
        renamed(
            Path(folder), timeline,
            lambda action, _chunk, rank: f"[r{rank}] {action.op.name} of {action.microbatch} on {action.stage} now",
            "user_annotation",
        )  # fmt: skip
        step = read_measured_step(Path(folder), naming)
        assert step is not None
        assert_same(step, timeline)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "must be a regular expression"),
        ("F", "must have the group"),
        ("(?P<op>F)(?P<layer>.)", "but no others"),
        (r"(?P<op>\w)(?P<microbatch>.*)", "must match an operation"),
        ("(?P<op>nothing like it)", "must have ranges that name the actions"),
    ],
)
def test_a_regular_expression_that_does_not_fit_is_refused(tmp_path: Path, pattern: str, problem: str):
    renamed(tmp_path, equal(), lambda action, _chunk, _rank: f"{action.op.name}x{action.microbatch}", "user_annotation")
    with pytest.raises(InputError, match=problem):
        read_measured_step(tmp_path, naming_of_pattern(pattern))


@settings(max_examples=examples(15))
@given(timelines(families=("1f1b", "zb-h1", "interleaved", "zbv")))
def test_the_trace_that_evenflow_writes_comes_back(timeline: Timeline):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(chrome_trace([TracedStep(timeline=timeline)]))
        step = read_measured_step(path)
        assert step is not None
        # Not all places of stages are in the names: those of two chunks may be in turn or on a V.
        assert np.array_equal(step.timeline.start_ns, timeline.start_ns)
        assert np.array_equal(step.timeline.end_ns, timeline.end_ns)


def dualpipe_events(pairs: int, *, around: bool = True) -> list[dict[str, object]]:
    """Pieces of a forward and a backward beside each other: computation on one stream, exchanges on another."""
    events: list[dict[str, object]] = []
    correlation = 0

    def add(category: str, name: str, start: int, end: int, thread: int, **arguments: object) -> None:
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        events.append({"ph": "X", "cat": category, "name": name, "pid": 3, "tid": thread, **times, "args": arguments})

    for pair in range(pairs):
        base = 10**6 + pair * 100_000
        if around:
            add("user_annotation", "1F1B", base - 5000, base + 1000, 1)
        pieces = (
            ("attn(F)", "gemm", 0, 10_000), ("combine(B)", "deep_ep::combine", 0, 8000),
            ("mlp(B)", "gemm", 10_000, 30_000), ("dispatch(F)", "deep_ep::dispatch", 11_000, 22_000),
            ("mlp(W)", "gemm", 30_000, 40_000), ("mlp(F)", "gemm", 40_000, 60_000),
            ("combine(F)", "deep_ep::combine", 60_000, 70_000),
        )  # fmt: skip
        for number, (name, kernel, start, end) in enumerate(pieces):
            host = base - 4000 + 200 * number
            add("user_annotation", name, host, host + 100, 1)
            correlation += 1
            add("cuda_runtime", "cudaLaunchKernel", host + 10, host + 20, 1, correlation=correlation)
            add("kernel", kernel, base + start, base + end, 7, correlation=correlation)
    return events


def test_pieces_of_pairs_are_joined(tmp_path: Path):
    step = read_step(write_kineto(tmp_path / "train.json", dualpipe_events(2)))
    assert isinstance(step, ObservedStep)
    assert [str(action) for action in step.schedule.order(0)] == ["0F0", "0B0", "0F1", "0B1"]
    assert step.schedule.paired.tolist() == [0, 2]
    # Of 70 us, the forward's work takes 10 + 11 + 20 + 10 of 51 + 38; both together take 19 us more than the pair.
    assert step.start_ns.tolist() == [0, 70_000 * 51 // 89, 100_000, 100_000 + 70_000 * 51 // 89]
    assert step.end_ns.tolist()[1::2] == [70_000, 170_000]
    assert step.saved_ns is not None
    assert step.saved_ns.tolist() == [19_000, -1, 19_000, -1]
    assert step.exposed_ns == (20_000,), "only the last exchange of each pair has nothing beside it"


def test_pieces_without_a_range_of_the_pair_may_be_any_number(tmp_path: Path):
    message = refused(write_kineto(tmp_path / "train.json", dualpipe_events(1, around=False)))
    assert "must have a range such as 1F1B around the pieces" in message


@given(st.text(max_size=40))
def test_a_name_is_an_action_or_nothing(name: str):
    """No text makes any way to read it fail."""
    from evenflow.profiles.steps.action_names import NAMINGS

    for naming in NAMINGS:
        action = naming.read(name)
        assert action is None or action.op in Op


def test_the_schedule_of_a_window_has_equally_many_stages_on_every_rank(tmp_path: Path):
    timeline = equal("interleaved")
    write_kineto(tmp_path / "rank1.json", kineto_events(named_actions(timeline, 1, offset_ns=10**6)))
    step = read_step(tmp_path)
    assert isinstance(step, ObservedStep)
    assert isinstance(step.schedule, Schedule)
    assert (step.schedule.num_ranks, step.schedule.num_chunks) == (1, 2)
    assert "stages from 0 on" in str(step.refusal)
    assert json.dumps(step.notes)
