"""Timelines of a run: what was written comes back to the nanosecond, and spoiled files give one message."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.export.results.run_fields import timeline_fields
from evenflow.fields import as_fields
from evenflow.profiles.timeline_file import TimelineFile, is_timeline_file, timeline_file
from evenflow.run.measure.comparison import Comparison
from evenflow.simulate import Simulation, Timeline
from tests.run.job.launched import job
from tests.strategies import simulations


def comparison_of(simulation: Simulation, slower: int = 1) -> Comparison:
    """A run that goes as simulated, or takes `slower` times as long."""
    predicted = simulation.timeline
    measured = Timeline(
        graph=predicted.graph,
        start_ns=slower * predicted.start_ns,
        end_ns=slower * predicted.end_ns,
        makespan_ns=slower * predicted.makespan_ns,
    )
    return Comparison(
        predicted=predicted,
        measured=measured,
        step_ns=(measured.makespan_ns,),
        costs=simulation.costs,
        durations=simulation.costs.durations,
        measured_peak_bytes=tuple(2**20 * (rank + 1) for rank in range(predicted.schedule.num_ranks)),
    )


def written(simulation: Simulation, slower: int = 1) -> dict[str, Any]:
    of_run = replace(job(2), plan=simulation.plan, memory_limit_bytes=2**30)
    return json.loads(format_object(timeline_fields(of_run, comparison_of(simulation, slower))))


def read(values: object) -> TimelineFile:
    return timeline_file(as_fields(values, file="t.json"))


@given(simulations(), st.integers(1, 9))
def test_timelines_come_back(simulation: Simulation, slower: int):
    fields = written(simulation, slower)
    assert is_timeline_file(as_fields(fields, file="t.json"))
    found = read(fields)
    schedule = simulation.timeline.schedule
    assert found.predicted.schedule.same_order(schedule)
    assert np.array_equal(found.predicted.start_ns, simulation.timeline.start_ns)
    assert np.array_equal(found.predicted.end_ns, simulation.timeline.end_ns)
    assert np.array_equal(found.measured.end_ns, slower * simulation.timeline.end_ns)
    assert found.measured.makespan_ns == slower * simulation.makespan_ns
    assert found.memory_limit_bytes == 2**30
    assert found.measured_peak_bytes == tuple(2**20 * (rank + 1) for rank in range(schedule.num_ranks))


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
