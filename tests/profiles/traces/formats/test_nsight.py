"""Reports of Nsight Systems that lack what is needed, or are damaged."""

import sqlite3
from pathlib import Path
from random import Random

import pytest

from evenflow.errors import InputError
from evenflow.profiles.traces import LayerNames, read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.rows import case, refusal


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE NVTX_EVENTS", "must have NVTX ranges"),
        ("DELETE FROM NVTX_EVENTS", "must have NVTX ranges"),
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "profile with nsys profile -t cuda,nvtx"),
        ("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME", "profile with nsys profile -t cuda,nvtx"),
        (
            "ALTER TABLE NVTX_EVENTS DROP COLUMN globalTid",
            "must have the columns end, globalTid, start, text in table",
        ),
        ("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME", "the scopes of this one launch nothing"),
        ("UPDATE NVTX_EVENTS SET start = 'soon'", "must have NVTX ranges"),
        ("UPDATE NVTX_EVENTS SET text = CAST(x'ff' AS TEXT)", "must have a body layer of this name within a forward"),
    ],
)
def test_nsight_reports_without_what_is_needed(tmp_path: Path, change: str, message: str):
    path = builders.nsight(tmp_path / "a.sqlite", [builders.host_run(case())])
    database = sqlite3.connect(path)
    database.execute(change)
    database.commit()
    database.close()
    assert message in refusal(tmp_path, num_microbatches=2)


def test_a_damaged_nsight_report_is_refused(tmp_path: Path):
    whole = builders.nsight(tmp_path / "a.sqlite", [builders.host_run(case())]).read_bytes()
    expected = read_traces(tmp_path, num_microbatches=2, names=LayerNames(head=(), tail=()))
    random = Random(3)
    for length in [0, 1, 15, 16, 100, *random.sample(range(len(whole)), 40)]:
        (tmp_path / "a.sqlite").write_bytes(whole[:length])
        refusal(tmp_path, num_microbatches=2)
    for _ in range(40):
        damaged = bytearray(whole)
        start = random.randrange(len(whole))
        damaged[start : start + 50] = random.randbytes(len(damaged[start : start + 50]))
        (tmp_path / "a.sqlite").write_bytes(damaged)
        try:
            times = read_traces(tmp_path, num_microbatches=2, names=LayerNames(head=(), tail=()))
        except InputError:
            continue
        assert len(times.bodies) == len(expected.bodies)
