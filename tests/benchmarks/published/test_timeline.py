"""The simulator on a published timeline."""

import copy
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks.published.accuracy import DATA
from benchmarks.published.timeline import memory_errors, memory_table, simulated_span_ns, step_errors, step_table
from benchmarks.published.timeline_file import read_timeline
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.schedule import Op, make_schedule
from evenflow.simulate.graph import build_graph
from evenflow.simulate.timeline import run

PRIMUS = DATA / "primus_pp8.json"


def test_steps_of_primus_are_within_two_per_cent() -> None:
    errors = step_errors(read_timeline(PRIMUS))
    assert len(errors) == 5
    for each in errors.values():
        assert abs(each.own.relative) < 0.0105
        assert abs(each.own_with_pauses.relative) < 0.001
        assert abs(each.medians_with_pauses.relative) < 0.012
    assert step_table(errors).splitlines()[1].split()[:3] == ["10", "3,240.4", "-1.01"]


def test_peaks_of_primus_follow_from_those_of_other_ranks_within_three_per_cent() -> None:
    errors = memory_errors(read_timeline(PRIMUS))
    assert max(abs(error.relative) for error in errors["live and ends"]) < 0.005
    assert max(abs(error.relative) for error in errors["live"]) < 0.037
    assert len(memory_table(errors).splitlines()) == 9


def test_the_order_of_primus_is_1f1b() -> None:
    order = make_schedule("1f1b", num_ranks=8, num_chunks=1, num_microbatches=16)
    assert read_timeline(PRIMUS).schedule.same_order(order)


def test_spans_of_equal_durations_are_those_of_the_simulator() -> None:
    schedule = make_schedule("interleaved", num_ranks=4, num_chunks=2, num_microbatches=8)
    graph = build_graph(schedule)
    table = np.arange(1, 4 * schedule.num_stages + 1, dtype=np.int64)
    timeline = run(graph, table)
    end_of_rank_0 = timeline.end_ns[schedule.ranks == 0].max()
    assert simulated_span_ns(graph, timeline.end_ns - timeline.start_ns) == end_of_rank_0


def test_a_pause_is_like_a_longer_action_but_for_the_last() -> None:
    schedule = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=4)
    graph = build_graph(schedule)
    ones = np.ones(schedule.num_actions, dtype=np.int64)
    assert simulated_span_ns(graph, ones, pause_ns=2) == simulated_span_ns(graph, 3 * ones) - 2


def small() -> dict:
    """Two ranks, two microbatches: a timeline that the simulator predicts exactly."""
    both = [[0, 0], [1, 0]]
    return {
        "ranks": 2,
        "chunks": 1,
        "microbatches": 2,
        "order": {
            "0": {"warmup_forwards": 1, "forward": both, "backward": both},
            "1": {"warmup_forwards": 0, "forward": both, "backward": both},
        },
        "steps": [
            {"step": 1, "rank": 0, "memory_gb": 9.0, "forward_ms": [[0, 1], [1, 2]], "backward_ms": [[4, 6], [7, 9]]},
            {"step": 1, "rank": 1, "memory_gb": 7.0, "forward_ms": [[0, 1], [3, 4]], "backward_ms": [[1, 3], [4, 6]]},
        ],
    }


def read(tmp_path, values):
    (tmp_path / "small.json").write_text(json.dumps(values), encoding="utf-8")
    return read_timeline(tmp_path / "small.json")


def test_a_timeline_without_pauses_is_predicted_exactly(tmp_path) -> None:
    timeline = read(tmp_path, small())
    (errors,) = step_errors(timeline).values()
    assert errors.own.relative == errors.medians.relative == errors.own_with_pauses.relative == 0
    assert memory_errors(timeline) == {}  # a line has two unknowns, and only one other rank is there


@given(st.integers(2, 4), st.integers(1, 3), st.data())
def test_any_simulated_timeline_is_predicted_exactly(num_ranks, num_chunks, data) -> None:
    """Interleaved orders with random times of every stage, written as the measured timeline of three equal steps."""
    num_microbatches = 2 * num_ranks
    sizes = {"num_ranks": num_ranks, "num_chunks": num_chunks, "num_microbatches": num_microbatches}
    schedule = make_schedule("interleaved" if num_chunks > 1 else "1f1b", **sizes)
    count = 4 * schedule.num_stages
    durations = data.draw(st.lists(st.integers(1, 90), min_size=count, max_size=count))
    timeline = run(build_graph(schedule), 1_000_000 * np.array(durations, dtype=np.int64))
    order, steps = {}, []
    for rank in range(num_ranks):
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        times = np.stack((timeline.start_ns[span], timeline.end_ns[span]), axis=1) / 1e6
        pairs = np.stack((schedule.units[span], schedule.stages[span] // num_ranks), axis=1)
        ops = schedule.ops[span]
        order[str(rank)] = {
            "warmup_forwards": int(np.argmax(ops == Op.B)) - 1,
            "forward": pairs[ops == Op.F].tolist(),
            "backward": pairs[ops == Op.B].tolist(),
        }
        both = {"forward_ms": times[ops == Op.F].tolist(), "backward_ms": times[ops == Op.B].tolist()}
        steps += [{"step": step, "rank": rank, "memory_gb": 8.0, **both} for step in range(3)]
    sizes = {"ranks": num_ranks, "chunks": num_chunks, "microbatches": num_microbatches}
    with tempfile.TemporaryDirectory() as folder:
        again = read(Path(folder), {**sizes, "order": order, "steps": steps})
    assert again.schedule.same_order(schedule)
    errors = step_errors(again)
    assert all(each.own.relative == each.medians.relative == 0 for each in errors.values())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda v: v["steps"].pop(), "steps must have every rank of step 1"),
        (lambda v: v["steps"].clear(), "steps must have a step"),
        (lambda v: v["steps"][1].update(rank=0), r"steps\[1\].rank must be a rank of the pipeline, once in each step"),
        (lambda v: v["steps"][0]["forward_ms"].pop(), r"steps\[0\] must have a start and an end for every action"),
        (lambda v: v["steps"][0]["forward_ms"].append([9, 10]), r"steps\[0\] must have a start and an end for every"),
        (lambda v: v["steps"][0]["forward_ms"].reverse(), r"steps\[0\] must have actions that follow each other"),
        (lambda v: v["steps"][0].update(forward_ms=[[1, 0], [2, 3]]), r"forward_ms must be a list of \[start, end\]"),
        (lambda v: v["steps"][0].update(forward_ms=[["a", 0]]), r"forward_ms must be a list of \[start, end\] in ms"),
        (
            lambda v: v["steps"][0].update(dict.fromkeys(("forward_ms", "backward_ms"), [[1, 1]] * 2)),
            "must take some time",
        ),
        (lambda v: v["steps"][0].update(memory_gb=-1), "memory_gb must be a number"),
        (lambda v: v["order"]["0"].update(warmup_forwards=3), "warmup_forwards must be at most the number of forwards"),
        (lambda v: v["order"]["0"]["forward"].pop(), r"forward must be a list of 2 times \[microbatch, chunk\]"),
        (lambda v: v["order"]["0"]["forward"][0].append(1), "forward must be a list of 2 times"),
        (lambda v: v["order"].pop("1"), "order must have the field '1'"),
        (lambda v: v.update(ranks=10**9), "ranks must be an integer"),
        (lambda v: v["order"]["0"].update(forward=[[0, 0], [0, 0]]), "must"),
    ],
)
def test_a_spoiled_timeline_gives_one_message(tmp_path, spoil, message) -> None:
    values = copy.deepcopy(small())
    spoil(values)
    with pytest.raises(InputError, match=message):
        read(tmp_path, values)
