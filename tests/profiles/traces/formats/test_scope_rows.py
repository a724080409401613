"""MindSpore's scope rows: forwards and backwards of the outermost layers."""

from pathlib import Path

from evenflow.profiles.traces import read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.rows import SCOPE_PROCESS, row


def test_recomputed_rows_and_rows_outside_of_passes_do_not_count(tmp_path: Path):
    rows = [
        row("Default", 0, 100, tid=0), row("0-LLamaDecodeLayer", 10, 40),
        row("recompute_Default", 100, 100, tid=0), row("0-LLamaDecodeLayer", 110, 90),
        row("Gradients", 200, 100, tid=0), row("0-LLamaDecodeLayer", 210, 70),
        row("0-LLamaDecodeLayer", 400, 500),
    ]  # fmt: skip
    builders.write(tmp_path / "trace_view0.json", [*rows, SCOPE_PROCESS])
    (body,) = read_traces(tmp_path, num_microbatches=1).bodies
    assert (body.forward_ns, body.backward_ns) == (40_000, 70_000)
