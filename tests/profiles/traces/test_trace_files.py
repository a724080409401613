"""Files of a folder that are traces."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.text.trace_text import trace_text
from evenflow.profiles.traces import read_traces
from evenflow.profiles.traces.trace_files import TraceFile, TraceFolder, trace_files
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


OUTPUT = "ASCEND_PROFILER_OUTPUT"
LAYOUTS = {
    "rank_{rank}": None,
    "rank{rank}/host_77{rank}_20260101_ascend_ms": None,
    "{rank}": None,
    "RANK-{rank}_20260101_ascend_ms": None,
    "host_9{other}_20260101_ascend_pt": "profiler_info_{rank}.json",
}
"""Folders of ranks as profilers and launch scripts name them, and the file that says which rank it is."""


def write_profile(folder: Path, layout: str, rank: int, *, duration_us: int = 10, output: str = OUTPUT) -> Path:
    profile = folder / layout.format(rank=rank, other=99 - rank)
    (profile / output).mkdir(parents=True)
    info = LAYOUTS[layout]
    if info is not None:
        (profile / info.format(rank=rank)).write_text("{}")
    (profile / "profiler_metadata.json").write_text("{}")
    (profile / output / "communication.json").write_text("{}")
    return forwards(row(f"{rank}-LLamaDecodeLayer", 0, duration_us), path=profile / output / "trace_view.json")


def ranks_in(folder: Path) -> list[int | None]:
    return [file.rank for file in trace_files(folder).files]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_output_of_every_rank_is_read_in_order_of_the_ranks(tmp_path: Path, layout: str):
    for rank in (10, 2, 0):
        write_profile(tmp_path, layout, rank, duration_us=10 + rank)
    (tmp_path / "cluster.json").write_text("{}")
    assert ranks_in(tmp_path) == [0, 2, 10]
    times = read_traces(tmp_path, num_microbatches=1)
    assert times.bodies[0].forward_ns == 14_000
    assert times.notes[0] == f"{tmp_path}: no trace of these ranks: 1, 3-9"
    text = trace_text(times, num_microbatches=1)
    assert "3 files" in text
    assert text.count(f"/{OUTPUT}/trace_view.json") == 3, "the files are told apart by their folders"


def test_ranks_whose_profile_was_not_analysed_are_missing(tmp_path: Path):
    layout = "host_9{other}_20260101_ascend_pt"
    for rank in (0, 1):
        write_profile(tmp_path, layout, rank)
    for rank in (2, 3):
        write_profile(tmp_path, layout, rank, output="FRAMEWORK")
    (tmp_path / "rank_4").mkdir()
    assert trace_files(tmp_path).missing == "2-4"


def test_the_profile_of_one_rank_is_one_trace(tmp_path: Path):
    path = write_profile(tmp_path, "rank_{rank}", 3)
    for given_path in (tmp_path / "rank_3", path.parent, path):
        times = read_traces(given_path, num_microbatches=1)
        assert len(times.files) == 1
        assert not any("ranks" in note for note in times.notes)


def test_profiles_without_timelines_say_how_to_make_them(tmp_path: Path):
    write_profile(tmp_path, "rank_{rank}", 0).unlink()
    message = refusal(tmp_path)
    assert f"must have a trace_view.json in the {OUTPUT} of each rank" in message
    assert "let the profiler analyse what it recorded" in message


def test_copies_beside_the_profiles_are_refused(tmp_path: Path):
    write_profile(tmp_path, "rank_{rank}", 0)
    forwards(row("0-LLamaDecodeLayer", 0, 10), path=tmp_path / "trace_view0.json")
    assert "must have its traces beside each other or in a folder of each rank, not both" in refusal(tmp_path)


def test_any_profiler_may_have_a_folder_for_each_rank(tmp_path: Path):
    for rank in (10, 9):
        (tmp_path / f"rank{rank}").mkdir()
        forwards(row("0-LLamaDecodeLayer", 0, 10), path=tmp_path / f"rank{rank}" / "a.json")
    assert ranks_in(tmp_path) == [9, 10]


def test_a_folder_with_a_whole_machine_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evenflow.profiles.traces.trace_files._MOST_FOLDERS", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    assert "must have at most 3 folders" in refusal(tmp_path)


@pytest.mark.parametrize("zipped", [False, True])
def test_traces_of_pytorch_are_in_order_of_the_ranks_that_they_record(tmp_path: Path, zipped: bool):
    for process, rank in ((7, 1), (8, 0)):
        document = {"distributedInfo": {"backend": "gloo", "rank": rank}, "traceEvents": []}
        data = json.dumps(document).encode()
        (tmp_path / f"host_{process}.json{'.gz' * zipped}").write_bytes(gzip.compress(data) if zipped else data)
    assert ranks_in(tmp_path) == [0, 1]
    (tmp_path / "host_9.json").write_text("[]")
    assert ranks_in(tmp_path) == [1, 0, None], "by the numbers in the names, where one records none"


@given(st.sets(st.integers(0, 30), min_size=1))
def test_missing_ranks_are_all_up_to_the_last(ranks: set[int]):
    text = TraceFolder(files=tuple(TraceFile(path=Path(), rank=rank) for rank in ranks)).missing
    said: set[int] = set()
    for span in filter(None, text.split(", ")):
        first, _, last = span.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == set(range(max(ranks))) - ranks
