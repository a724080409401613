"""Streaming: any cut into blocks gives the same events, and what is damaged is refused."""

import gzip
import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.traces.formats import events as reading
from evenflow.profiles.traces.formats.events import read_events
from tests.profiles.traces import builders
from tests.profiles.traces.rows import SCOPE_PROCESS, row
from tests.thoroughness import examples

texts = st.text(max_size=8) | st.sampled_from(["}, {", '"', "\\", '"}], "x": [{', "[", "traceEvents"])
arguments = st.dictionaries(
    st.sampled_from(["name", "correlation", "grid", "list", "deeper"]),
    texts | st.integers() | st.lists(st.fixed_dictionaries({"a": texts}), max_size=3) | st.none(),
    max_size=3,
)
trace_events = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XMsf"), "name": texts},
        optional={"pid": st.integers(0, 9) | texts, "ts": st.integers(0, 10**9), "args": arguments},
    ),
    max_size=8,
)


def read(path: Path) -> list[Any]:
    return [event for batch in read_events(path, on_bytes=lambda count: None) for event in batch]


@given(trace_events, st.booleans(), st.sampled_from([None, 1]), st.integers(1, 40), st.booleans())
def test_every_block_size_gives_the_events(
    events: list[dict[str, Any]], is_object: bool, indent: int | None, block: int, zipped: bool
):
    document: Any = {"other": [{"a": 1}], "traceEvents": events, "last": [{"}, {": []}]} if is_object else events
    data = json.dumps(document, indent=indent).encode()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", block)
        path = Path(folder) / "trace.json"
        path.write_bytes(gzip.compress(data, 1) if zipped else data)
        found = read(path)
    assert [(event.ph, event.name, event.pid, event.ts) for event in found] == [
        (event["ph"], event["name"], event.get("pid"), event.get("ts")) for event in events
    ]


@pytest.mark.parametrize("kineto", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path, kineto: bool, zipped: bool):
    event = {"ph": "X", "name": "a }, { 1", "ts": 7, "args": {"x": [{"y": 1}, {}]}}
    whole = builders.write(tmp_path / "whole.json", [event] * 3, kineto=kineto).read_bytes().rstrip()
    data = gzip.compress(whole) if zipped else whole
    path = tmp_path / "trace.json"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(InputError):
            read(path)
    path.write_bytes(data)
    assert len(read(path)) == 3


@settings(max_examples=examples(200))
@given(st.binary(max_size=60) | st.text(alphabet='[]{},:"\\ tracEvns1', max_size=60).map(str.encode))
@example(b"[" * 5000)
@example(b'{"traceEvents":[' + b"[" * 5000)
@example(b"[{}]]")
@example(b"[{},]")
@example(b"\xef\xbb\xbf[]")
@example(b"[1]")
@example(b'[{"ph": 1}]')
@example(b'{"traceEvents": []} {}')
def test_random_bytes_are_refused_or_read(data: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(data)
        try:
            found = read(path)
        except InputError:
            return
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except ValueError:
        # What surrounds the events of an object is not decoded, only its last bracket is looked for.
        assert data.strip()[-1:] == b"}"
    else:
        assert len(found) == len(document if isinstance(document, list) else document["traceEvents"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n ", "the file is empty"),
        (b"stage,time\n1,2\n", "must be a JSON array of events"),
        (b'{"schemaVersion": 1}', "must be a JSON array of events"),
        (b'[{"name": "a"}', "it ends before its last bracket"),
        (b'[{"name": "a"} {"name": "b"}]', "not JSON"),
        (b'[{"name": 3}]', "must be a list of events"),
        (b"\x1f\x8b\x08\x00broken", "not a whole gzip file"),
    ],
)
def test_messages(tmp_path: Path, data: bytes, message: str):
    path = tmp_path / "trace_view0.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as refused:
        read(path)
    assert str(path) in str(refused.value)


def test_progress_hears_of_every_byte(tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_bytes(json.dumps([{"ph": "X", "name": "a" * 100}] * 20_000).encode())
    heard: list[int] = []
    for _ in read_events(path, on_bytes=heard.append):
        pass
    assert heard == sorted(heard)
    assert len(heard) > 3
    assert heard[-1] == path.stat().st_size


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space of a process")
def test_a_large_file_needs_little_memory(tmp_path: Path):
    """The same limit on the size of the process does not do for `json.load`."""
    path = tmp_path / "trace_view0.json"
    operator = json.dumps(
        {"name": "Default/network-MFPipelineWithLossScaleCell/layers-CellList/0-LLamaDecodeLayer/Mul-op7", "pid": 9,
         "tid": 2, "ts": "1740000000000000.123", "dur": 12.3, "ph": "X", "args": {"Task Type": "AI_CORE", "Id": 7}}
    )  # fmt: skip
    rows = [row("Default", 0, 10**6, tid=0), row("0-LLamaDecodeLayer", 0, 11), SCOPE_PROCESS]
    filler = (operator + ",\n") * 1000
    with path.open("w") as file:
        file.write("[")
        for _ in range(300):
            file.write(filler)
        file.write(",\n".join(map(json.dumps, rows)) + "]")
    assert path.stat().st_size > 55 * 2**20
    program = textwrap.dedent(
        """
        import json, resource, sys
        from evenflow.profiles.traces import read_traces
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
        if sys.argv[2] == "stream":
            print(read_traces(sys.argv[1], num_microbatches=1).bodies[0].forward_ns)
        else:
            json.load(open(sys.argv[1]))
        """
    )
    outcomes = {
        how: subprocess.run([sys.executable, "-c", program, str(path), how], capture_output=True, text=True)
        for how in ("stream", "load")
    }
    assert outcomes["stream"].stdout == "11000\n", outcomes["stream"].stderr
    assert "MemoryError" in outcomes["load"].stderr
