"""Samples of one layer for one microbatch: divisors, and what a trace does not show."""

from pathlib import Path

from evenflow.profiles.traces import LayerNames, read_traces
from tests.profiles.traces.rows import forwards, row


def test_more_forwards_than_microbatches_are_said(tmp_path: Path):
    rows = [row(f"{layer}-LLamaDecodeLayer", 100 * index + 10 * layer, 8) for index in range(4) for layer in range(2)]
    path = forwards(*rows, row("ProfilerStep#1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json")
    times = read_traces(path, num_microbatches=2)
    assert times.bodies[0].forward_ns == 16_000
    (note,) = (note for note in times.notes if "runs forward" in note)
    assert note.startswith("trace_view0.json: a layer runs forward 4 times a step, not 2")


def test_a_backward_that_is_cut_off_is_not_taken(tmp_path: Path):
    rows = [row("Gradients", 2 * 10**9, 100, tid=0), row("0-LLamaDecodeLayer", 2 * 10**9, 70)]
    layers = [row("0-LLamaDecodeLayer", 100 * index, 10) for index in range(2)]
    path = forwards(*layers, *rows, path=tmp_path / "trace_view0.json")
    (body,) = read_traces(path, num_microbatches=2).bodies
    assert (body.forward_ns, body.backward_ns) == (10_000, None)


def test_a_name_without_a_number_is_that_of_several_layers(tmp_path: Path):
    rows = [row("decoder", 10 * index, index + 1) for index in range(6)]
    path = forwards(*rows, row("step 1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json")
    times = read_traces(path, num_microbatches=2, names=LayerNames(head=(), body=("decoder",), tail=()))
    assert times.files[0].num_layers == 3
    assert times.bodies[0].forward_ns == 3_500
