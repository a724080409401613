"""Spans of OpenTelemetry, in files of every form, give the step that they are of."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.steps import ObservedStep, read_measured_step, read_step
from evenflow.schedule import Op
from evenflow.simulate import Timeline
from tests.profiles.steps.builders import timelines
from tests.profiles.steps.test_records import assert_same, equal
from tests.thoroughness import examples

START_NS = 1_780_000_000 * 10**9


def spans_of(timeline: Timeline, *, apart: int = 1) -> list[dict[str, Any]]:
    """Name, times and attributes of the spans of Megatron-LM on the ranks of a pipeline, `apart` ranks apart."""
    schedule = timeline.schedule
    spans = []
    for rank in range(schedule.num_ranks):
        resource = {
            "dl.rank": rank * apart,
            "dl.world_size": schedule.num_ranks * apart,
            "dl.pipeline_parallel.size": schedule.num_ranks,
        }
        first, last = schedule.rank_starts[rank : rank + 2]
        rows = [("megatron.train_step", -5000, timeline.makespan_ns + 5000)]
        rows += [
            (
                f"megatron.microbatch.{'forward' if schedule.ops[index] == Op.F else 'backward'}",
                int(timeline.start_ns[index]),
                int(timeline.end_ns[index]),
            )
            for index in range(first, last)
        ]
        rows.append(("megatron.p2p.recv_forward", -3000, -2000))
        spans += [
            {"name": name, "start": START_NS + start, "end": START_NS + end, "resource": resource}
            for name, start, end in rows
        ]
    return spans


def otlp(spans: list[dict[str, Any]]) -> str:
    def value(number: int) -> dict[str, str]:
        return {"intValue": str(number)}

    lines = []
    for span in spans:
        attributes = [{"key": key, "value": value(number)} for key, number in span["resource"].items()]
        own = {"name": span["name"], "startTimeUnixNano": str(span["start"]), "endTimeUnixNano": str(span["end"])}
        lines.append(
            json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [own]}]}]})
        )
    return "\n".join(lines)


def jaeger(spans: list[dict[str, Any]]) -> str:
    processes = {
        f"p{span['resource']['dl.rank']}": {
            "tags": [{"key": key, "value": number} for key, number in span["resource"].items()]
        }
        for span in spans
    }
    rows = [
        {
            "operationName": span["name"],
            "startTime": span["start"] // 1000,
            "duration": (span["end"] - span["start"]) // 1000,
            "processID": f"p{span['resource']['dl.rank']}",
            "tags": [],
        }
        for span in spans
    ]
    return json.dumps({"data": [{"traceID": "ab", "spans": rows, "processes": processes}]})


def console(spans: list[dict[str, Any]]) -> str:
    """What the exporter to the console prints, between lines of the training's own."""

    def text(time_ns: int) -> str:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    return "iteration 1 {loss}\n" + "\nloss 3.2\n".join(
        json.dumps(
            {
                "name": span["name"],
                "context": {"trace_id": "0x1"},
                "start_time": text(span["start"]),
                "end_time": text(span["end"]),
                "attributes": {},
                "resource": {"attributes": span["resource"]},
            },
            indent=4,
        )
        for span in spans
    )


def lines(spans: list[dict[str, Any]]) -> str:
    return "\n".join(
        json.dumps(
            {
                "name": span["name"],
                "start_time_unix_nano": span["start"],
                "end_time_unix_nano": span["end"],
                "attributes": span["resource"],
            }
        )
        for span in spans
    )


FORMS = {"otlp": otlp, "jaeger": jaeger, "console": console, "lines": lines}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["1f1b", "interleaved"])
def test_spans_are_the_step(tmp_path: Path, form: str, family: str):
    timeline = equal(family)
    (tmp_path / "spans.jsonl").write_text(FORMS[form](spans_of(timeline)))
    for path in (tmp_path, tmp_path / "spans.jsonl"):
        step = read_measured_step(path)
        assert step is not None
        assert_same(step, timeline)
        assert any("spans such as megatron.microbatch.forward" in note for note in step.notes)
        assert "Times are those of the ranges themselves, not of work on a device." in step.notes


@settings(max_examples=examples(15))
@given(timelines(families=("1f1b", "f-then-b")))
def test_spans_of_any_step(timeline: Timeline):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spans.json"
        path.write_text(otlp(spans_of(timeline)))
        step = read_step(path)
        assert step is not None
        if timeline.schedule.num_ranks > 1:
            assert not isinstance(step, ObservedStep)
            assert_same(step, timeline)


def test_of_all_ranks_those_of_one_pipeline_are_shown(tmp_path: Path):
    timeline = equal()
    spans = spans_of(timeline, apart=2)
    others = [{**span, "resource": {**span["resource"], "dl.rank": span["resource"]["dl.rank"] + 1}} for span in spans]
    (tmp_path / "spans.json").write_text(otlp(spans + others))
    step = read_measured_step(tmp_path / "spans.json")
    assert step is not None
    assert_same(step, timeline)
    assert "Of 4 ranks, those of one pipeline are shown: 0, 2." in step.notes


def test_the_rank_that_exports_alone_is_shown_as_it_was_recorded(tmp_path: Path):
    """By default the last rank of all is the only one."""
    spans = [span for span in spans_of(equal()) if span["resource"]["dl.rank"] == 1]
    (tmp_path / "spans.json").write_text(otlp(spans))
    step = read_step(tmp_path / "spans.json")
    assert isinstance(step, ObservedStep)
    assert np.all(step.end_ns > step.start_ns)


NO_TIMES = "must have a name, a start and an end"
NO_SPANS = "must have spans of microbatches"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "megatron.microbatch.forward"}]}]}]}, NO_TIMES),
        ({"resourceSpans": [7]}, NO_TIMES),
        ({"name": "x", "start_time": "yesterday", "end_time": "today"}, NO_TIMES),
        ({"name": "x", "start_time_unix_nano": 5, "end_time_unix_nano": 4}, NO_TIMES),
        ({"name": "evaluate", "start_time_unix_nano": 5, "end_time_unix_nano": 6}, NO_SPANS),
        ({"resourceSpans": []}, NO_SPANS),
    ],
)
def test_spans_that_say_nothing_are_refused(tmp_path: Path, fields: dict[str, object], problem: str):
    (tmp_path / "spans.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=problem):
        read_step(tmp_path / "spans.json")


KEYS = ("spans", "scopeSpans", "resource", "attributes", "name", "key", "startTimeUnixNano", "tags", "operationName")
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(60))
@given(st.sampled_from(["resourceSpans", "data", "start_time", "start_time_unix_nano"]), JSON)
def test_any_damage_is_one_message(key: str, value: object):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spans.json"
        path.write_text(json.dumps({key: value, "name": "n", "operationName": "n"}))
        with pytest.raises(InputError):
            read_step(path)
