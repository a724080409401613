"""Files of a folder that are traces."""

from pathlib import Path

from evenflow.profiles.traces import read_traces
from tests.profiles.traces.rows import forwards, refusal, row


def test_in_an_ascend_folder_only_timelines_are_read(tmp_path: Path):
    for name in ("trace_view10.json", "trace_view2.json"):
        forwards(row("0-LLamaDecodeLayer", 0, 10), path=tmp_path / name)
    (tmp_path / "communication.json").write_text('{"step": {}}')
    (tmp_path / "step_trace_time.csv").write_text("")
    times = read_traces(tmp_path, num_microbatches=1)
    assert [Path(file.file).name for file in times.files] == ["trace_view2.json", "trace_view10.json"]


def test_bad_folders_are_refused(tmp_path: Path):
    assert "missing: no such file" in refusal(tmp_path / "missing")
    assert "must have traces: files" in refusal(tmp_path)
    (tmp_path / "rank0.nsys-rep").write_bytes(b"")
    assert "run nsys export --type sqlite rank0.nsys-rep" in refusal(tmp_path)
    (tmp_path / "notes.json").write_text('{"a": 1}')
    assert "leave only traces in the folder" in refusal(tmp_path)
