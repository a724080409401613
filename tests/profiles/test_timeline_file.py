"""Timelines of a run: what was written comes back to the nanosecond, and spoiled files give one message."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.fields import as_fields
from evenflow.profiles.timeline_file import TimelineFile, is_timeline_file, timeline_fields, timeline_file
from evenflow.simulate import Simulation, Timeline
from tests.strategies import simulations


def step_of(simulation: Simulation, slower: int = 1, *, has_peaks: bool = True) -> TimelineFile:
    """A run that goes as simulated, or takes `slower` times as long."""
    predicted = simulation.timeline
    measured = Timeline(
        graph=predicted.graph,
        start_ns=slower * predicted.start_ns,
        end_ns=slower * predicted.end_ns,
        makespan_ns=slower * predicted.makespan_ns,
    )
    peaks = tuple(2**20 * (rank + 1) for rank in range(predicted.schedule.num_ranks))
    return TimelineFile(
        predicted=predicted,
        measured=measured,
        predicted_peak_bytes=peaks[::-1] if has_peaks else None,
        measured_peak_bytes=peaks if has_peaks else None,
        memory_limit_bytes=2**30 if has_peaks else None,
    )


def written(step: TimelineFile, simulation: Simulation) -> dict[str, Any]:
    return json.loads(format_object(timeline_fields(step, plan=simulation.plan)))


def read(values: object) -> TimelineFile:
    return timeline_file(as_fields(values, file="t.json"))


@given(simulations(), st.integers(1, 9), st.booleans())
def test_timelines_come_back(simulation: Simulation, slower: int, has_peaks: bool):
    assume(not simulation.timeline.schedule.has_pairs)  # a run has one action after the other
    step = step_of(simulation, slower, has_peaks=has_peaks)
    fields = written(step, simulation)
    assert is_timeline_file(as_fields(fields, file="t.json"))
    back = read(fields)
    for side, timeline in ((back.predicted, step.predicted), (back.measured, step.measured)):
        assert side.schedule.same_order(timeline.schedule)
        assert np.array_equal(side.start_ns, timeline.start_ns)
        assert np.array_equal(side.end_ns, timeline.end_ns)
        assert side.makespan_ns == timeline.makespan_ns
    assert back.memory_limit_bytes == step.memory_limit_bytes
    assert back.predicted_peak_bytes == step.predicted_peak_bytes
    assert back.measured_peak_bytes == step.measured_peak_bytes


ROWS = [[["0F0", 0.0, 1.0], ["0B0", 3.0, 5.0]], [["1F0", 1.0, 2.0], ["1B0", 2.0, 3.0]]]
FIELDS = {"schedule": "1f1b", "predicted": ROWS, "measured": ROWS}


def test_a_file_of_an_older_version_has_no_peaks():
    found = read(FIELDS)
    assert (found.predicted_peak_bytes, found.measured_peak_bytes, found.memory_limit_bytes) == (None, None, None)
    assert found.measured.makespan_ns == 5_000_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicted": []}, "must have the same actions"),
        ({"predicted": [[]]}, r"t.json: predicted must be a list of \[action, start, end\]"),
        ({"predicted": [ROWS[0], [["1F0", 1.0]]]}, r"must be a list of \[action, start, end\]"),
        ({"predicted": [[["0X0", 0.0, 1.0]]]}, r"must be a list of \[action, start, end\]"),
        ({"predicted": [[["9999999F0", 0.0, 1.0]]]}, r"must be a list of \[action, start, end\]"),
        ({"measured": ROWS[::-1]}, "must have the same actions in the same order under predicted and measured"),
        ({"measured": [ROWS[0], [["1F0", 1.0, 2.0], ["1B0", 1.5, 3.0]]]}, "measured, 1B0 must begin once the action"),
        ({"measured": [ROWS[0], [["1F0", 1.0, 2.0], ["1B0", 4, 3]]]}, "measured, 1B0 must begin once the action"),
        ({"measured": [ROWS[0], [["1F0", 1.0, 2.0], ["1B0", 2.0, 1e99]]]}, "measured, 1B0 must be a number from 0"),
        ({"measured": [ROWS[0], [["1F0", 1.0, 2.0], ["1B0", "2", 3]]]}, "measured, 1B0 must be a number from 0"),
        ({"schedule": 3}, "t.json: schedule must be a text"),
        ({"sequence_splits": 0}, "t.json: sequence_splits must be an integer"),
        ({"memory_limit_mb": -1}, "t.json: memory_limit_mb must be a number"),
        ({"peak_memory_mb": {"predicted": [1.0], "measured": [1.0, 2.0]}}, "predicted must be a list of 2 numbers"),
        ({"peak_memory_mb": {"predicted": [1.0, 2.0]}}, "must have the field 'measured'"),
    ],
)
def test_spoiled_files(changes: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        read(FIELDS | changes)


def test_an_incomplete_order_is_refused():
    rows = [[["0F0", 0.0, 1.0]], [["1F0", 1.0, 2.0], ["1B0", 2.0, 3.0]]]
    with pytest.raises(InputError, match="must"):
        read(FIELDS | {"predicted": rows, "measured": rows})
