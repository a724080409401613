"""A folder of traces: notes, progress, and one message for what is wrong."""

from pathlib import Path

from evenflow.profiles.traces import read_traces
from tests.paths import EXAMPLES
from tests.profiles.traces import builders
from tests.profiles.traces.rows import case, forwards, refusal, row

EXAMPLE = EXAMPLES / "timelines" / "llama2_175b"


def test_a_file_without_layers_is_noted(tmp_path: Path):
    forwards(row("0-LLamaDecodeLayer", 0, 10), path=tmp_path / "trace_view0.json")
    forwards(row("loss", 0, 10), path=tmp_path / "trace_view1.json")
    times = read_traces(tmp_path, num_microbatches=1)
    assert len(times.files) == 1
    assert f"{tmp_path / 'trace_view1.json'}: none of the layers" in times.notes


def test_progress_is_of_all_files(tmp_path: Path):
    heard: list[tuple[int, int]] = []
    read_traces(EXAMPLE, num_microbatches=8, progress=lambda done, total: heard.append((done, total)))
    size = sum(path.stat().st_size for path in EXAMPLE.iterdir())
    assert heard == sorted(heard)
    assert heard[-1] == (size, size)


def test_more_layers_than_the_model_has_are_refused():
    assert "must be at least the 6 that this stage runs, got 5" in refusal(EXAMPLE, num_microbatches=8, num_layers=5)
    assert "microbatches must be at least 1, got 0" in refusal(EXAMPLE, num_microbatches=0)


def test_layers_that_launch_nothing_are_refused(tmp_path: Path):
    run = builders.host_run(case())
    run.kernels = [(9, *kernel[1:]) for kernel in run.kernels]
    path = builders.write(tmp_path / "a.json", builders.kineto(run), kineto=True)
    assert "the scopes of this one launch nothing" in refusal(path, num_microbatches=2)
