"""The verb on the shipped timelines: times, files, messages."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from evenflow.profiles.layer_file import read_layer_file
from tests.paths import EXAMPLES

TIMELINES = EXAMPLES / "timelines" / "llama2_175b"

Evenflow = Callable[..., Result]


def test_the_example_has_the_times_of_its_layer_file(evenflow: Evenflow, tmp_path: Path):
    found, layer_file = tmp_path / "times.json", tmp_path / "llama2.json"
    result = evenflow(
        "read-trace", TIMELINES, "--layers", 96, "--microbatches", 8, "--json", found, "--layer-file", layer_file
    )
    assert result.exit_code == 0, result.output
    expected = read_layer_file(EXAMPLES / "llama2_175b.json")
    written = read_layer_file(layer_file)
    assert not written.has_memory
    assert written.num_layers == 96
    for of_file, of_trace in (
        (expected.head, written.head), (expected.layers[0], written.layers[0]), (expected.tail, written.tail)
    ):  # fmt: skip
        assert (of_trace.forward_ns, of_trace.backward_ns) == (of_file.forward_ns, of_file.backward_ns)
    times = json.loads(found.read_text())
    assert times["head"]["forward_ms"] == 1.21
    assert times["bodies"][0]["forward_spread_ms"] == {"minimum": 21.93, "median": 21.99, "maximum": 22.05}
    assert times["tail"]["backward_measured"]
    assert [file["steps_counted"] for file in times["files"]] == [2, 2, 2]
    assert [Path(file["file"]).name for file in times["files"]] == [
        "trace_view0.json", "trace_view7.json", "trace_view15.json"
    ]  # fmt: skip
    assert "body  LLamaDecodeLayer               forward   21.990  21.930  21.990  22.050  measured" in result.stdout
    assert f"wrote {found}, {layer_file}" in result.stdout.replace("\n", " ")


def test_the_example_is_what_its_script_makes():
    script = runpy.run_path(str(EXAMPLES / "timelines" / "make_llama2_175b.py"))
    for rank in (0, 7, 15):
        assert (TIMELINES / f"trace_view{rank}.json").read_text() == script["text_of"](rank)


def test_what_is_not_measured_is_said(evenflow: Evenflow, tmp_path: Path):
    rows = [
        {"name": name, "pid": 3, "tid": tid, "ts": f"{start}.000", "dur": duration, "ph": "X"}
        for name, tid, start, duration in (("Default", 0, 0, 9000), ("0-Block", 7, 0, 1500), ("0-Norm", 7, 1500, 20))
    ]
    label = {"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "Scope Layer"}}
    path = tmp_path / "trace_view0.json"
    path.write_text(json.dumps([*rows, label]))
    names = ("--body", "Block", "--tail", "Norm", "--layers", 4, "--microbatches", 1)
    result = evenflow("read-trace", path, *names, "--layer-file", tmp_path / "layers.json")
    assert result.exit_code == 0, result.output
    assert "backward  3.000      -       -      -  2 x forward, not in the traces" in result.stdout
    assert "note: no trace has a head layer named LlamaEmbedding" in result.stdout
    network = read_layer_file(tmp_path / "layers.json")
    assert (network.layers[0].forward_ns, network.layers[0].backward_ns) == (1_500_000, 3_000_000)
    assert network.head.forward_ns == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", 96], "Missing option '--microbatches'"),
        (["--layers", 0, "--microbatches", 8], "must be an integer from 1 to 100,000"),
        (["--layers", 96, "--microbatches", 7], "give the microbatches of the profiled run"),
        (["--layers", 5, "--microbatches", 8], "at least the 6 that this stage runs"),
        (["--layers", 96, "--microbatches", 8, "--body", "GPTLayer"], "'LLamaDecodeLayer' (1,440)"),
        (["--layers", 90, "--layers", 6, "--microbatches", 8], "once for each of the 1 --body"),
        (
            ["--layers", 96, "--microbatches", 8, "--body", "0-LL", "--body", "LLama", "--layer-file", "l.json"],
            "once for each of the 2 --body",
        ),
        (
            ["--layers", 96, "--microbatches", 8, "--json", "a", "--layer-file", "a"],
            "the same file as --json",
        ),
    ],
)
def test_bad_input_is_one_message(evenflow: Evenflow, folder: Path, arguments: list[object], message: str):
    result = evenflow("read-trace", TIMELINES, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert {path.name for path in folder.iterdir()} == {"tiny.json"}


def test_the_bar_of_bytes_ends_at_the_whole(monkeypatch: pytest.MonkeyPatch):
    from rich.console import Console

    from evenflow.cli.verbs.read_trace import _shown_bytes

    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("TERM", "xterm")
    with _shown_bytes() as progress:
        assert progress is not None
        progress(50, 100)
        progress(100, 100)


def test_help_has_an_example(evenflow: Evenflow):
    result = evenflow("read-trace", "--help")
    assert result.exit_code == 0
    assert "evenflow read-trace examples/timelines/llama2_175b --layers 96 --microbatches 8" in result.stdout
