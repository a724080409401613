"""Steps of a trace: by markers that agree with the microbatches, else by counting."""

from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.profiles.traces import read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.rows import case, forwards, row


def test_without_a_marker_steps_follow_from_the_microbatches(tmp_path: Path):
    rows = [row(f"{layer}-LLamaDecodeLayer", 100 * index + 10 * layer, 9) for index in range(6) for layer in range(2)]
    path = forwards(*rows, path=tmp_path / "trace_view0.json")
    times = read_traces(path, num_microbatches=2)
    assert (times.files[0].num_steps, times.files[0].counted_steps) == (3, 1)
    assert times.bodies[0].num_samples == 2
    assert times.bodies[0].forward_ns == 9_000
    with pytest.raises(
        InputError, match=r"6 times in all, and no marker such as ProfilerStep#1 .*got 4.*microbatches of"
    ):
        read_traces(path, num_microbatches=4)


def test_a_marker_that_comes_with_every_microbatch_is_no_step(tmp_path: Path):
    """Microbatches may share their operators' names."""
    events, truth = builders.mindspore(case())
    for event in events:
        event["name"] = event["name"].replace("MatMul-op1", "MatMul-op0")
    builders.write(tmp_path / "trace_view0.json", events)
    times = read_traces(tmp_path, num_microbatches=2)
    assert times.files[0].steps_from == "counted forwards"
    assert times.files[0].num_steps == 4  # the builder adds one, of which only the end is counted elsewhere
    mean = [truth[name].mean("forward", [(step, mb) for step in (2, 3) for mb in (0, 1)]) for name in case().layers]
    assert times.bodies[0].forward_ns == round(sum(mean) / 2)


def test_layers_of_a_kind_run_equally_often(tmp_path: Path):
    rows = [row(f"{index % 3 % 2}-LLamaDecodeLayer", 10 * index, 8) for index in range(6)]
    path = forwards(*rows, row("ProfilerStep#1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json")
    with pytest.raises(InputError, match="runs 2 to 4 times between ProfilerStep, 2 to 4 times in all"):
        read_traces(path, num_microbatches=2)


def test_a_stage_with_one_layer_may_have_its_forwards_in_one_row(tmp_path: Path):
    path = forwards(
        row("0-LLamaDecodeLayer", 0, 80), row("ProfilerStep#1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json"
    )
    times = read_traces(path, num_microbatches=8)
    assert times.bodies[0].forward_ns == 10_000
    assert any("runs forward 1 times a step, not 8" in note for note in times.notes)
