"""Chrome traces of PyTorch and Ascend, against a naive reading and against nonsense."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.traces import LayerNames, read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.rows import case, refusal
from tests.thoroughness import examples

CPU_TRACE = Path(__file__).parents[1] / "fixtures" / "two_layers_on_cpu.pt.trace.json.gz"
TORCH_NAMES = LayerNames(head=("Embedding",), body=("Layer_",), tail=("Linear",))


def naive_time(inside: list[tuple[float, float]]) -> int:
    """Time in operators: the outermost ones do not overlap."""
    total, end = 0.0, 0.0
    for start, stop in sorted(inside, key=lambda span: (span[0], -span[1])):
        if start >= end:
            total, end = total + stop - start, stop
    return round(1000 * total)


def test_a_real_pytorch_trace_agrees_with_a_naive_join_by_sequence_number():
    """The reader joins by flows; here each backward node looks for the last operator that had its sequence number."""
    events = [
        event for event in json.loads(gzip.decompress(CPU_TRACE.read_bytes()))["traceEvents"] if event["ph"] == "X"
    ]
    span = {id(event): (event["ts"], event["ts"] + event["dur"]) for event in events}
    step = max((event for event in events if event["name"].startswith("ProfilerStep#")), key=lambda event: event["ts"])
    scopes = [
        event for event in events
        if event["name"].startswith("nn.Module: Layer_") and step["ts"] <= event["ts"] < step["ts"] + step["dur"]
    ]  # fmt: skip
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    nodes = [event for event in operators if event["name"].startswith("autograd::engine::evaluate_function")]
    plain = [event for event in operators if event not in nodes and "Backward" not in event["name"]]
    nodes.sort(key=lambda event: event["ts"])

    def within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
        return span[id(outer)][0] <= span[id(inner)][0] and span[id(inner)][1] <= span[id(outer)][1]

    def scope_of(node: dict[str, Any]) -> int | None:
        number = node["args"]["Sequence number"]
        candidates = [event for event in plain if event["args"].get("Sequence number") == number]
        made = max((event for event in candidates if event["ts"] < node["ts"]), key=lambda event: event["ts"])
        return next((index for index, scope in enumerate(scopes) if within(made, scope)), None)

    forward = [naive_time([span[id(event)] for event in plain if within(event, scope)]) for scope in scopes]
    backward = [0] * len(scopes)
    owner = None
    for node in nodes:
        if "AccumulateGrad" not in node["name"]:
            owner = scope_of(node)
        if owner is not None:
            backward[owner] += naive_time([span[id(event)] for event in plain if within(event, node)])
    times = read_traces(CPU_TRACE, num_microbatches=2, names=TORCH_NAMES)
    (body,) = times.bodies
    assert len(scopes) == 4
    assert body.forward_ns == pytest.approx(sum(forward) / 4, abs=1)
    assert body.backward_ns == pytest.approx(sum(backward) / 4, abs=1)
    assert body.scopes == ("nn.Module: Layer_0", "nn.Module: Layer_1")
    assert times.files[0].counted_steps == 1
    assert times.files[0].source == "PyTorch on the CPU: time in operators"


def test_kernels_that_nothing_launched_are_refused(tmp_path: Path):
    run = builders.host_run(case())
    kineto = [event for event in builders.kineto(run) if event.get("cat") != "cuda_runtime"]
    path = builders.write(tmp_path / "a.json", kineto, kineto=True)
    assert "must join the kernels of the device to the host by a launch" in refusal(path, num_microbatches=2)
    npu = [event for event in builders.torch_npu(run) if event.get("cat") != "async_npu"]
    path = builders.write(tmp_path / "trace_view.json", npu)
    assert "must join the kernels of the device to the host by a torch_to_npu flow" in refusal(path, num_microbatches=2)


odd = st.none() | st.integers(-5, 5) | st.sampled_from(["0", "", "x", 2**70, -(10**30)])
odd_times = st.integers(-5, 50) | st.floats(-5, 50) | st.sampled_from(["1.5", "x", "1e9", 10**30, None, "-3"])
odd_events = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from("XXXXsfM"),
            "name": st.sampled_from(
                ["0-LLamaDecodeLayer", "1-LLamaDecodeLayer", "Default", "Gradients", "ProfilerStep#1", "MatMul-op1",
                 "autograd::engine::evaluate_function: A", "process_name", "aten::mm", "kernel", "LlamaEmbedding"]
            ),
            "ts": odd_times,
            "dur": st.integers(0, 30) | odd_times,
        },
        optional={
            "cat": st.sampled_from(["kernel", "cuda_runtime", "cpu_op", "user_annotation", "fwdbwd", "async_npu", ""]),
            "pid": st.integers(1, 2),
            "tid": st.integers(0, 1),
            "id": st.integers(0, 2),
            "args": st.fixed_dictionaries({}, optional={"correlation": odd, "name": odd | st.just("Scope Layer")}),
        },
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=examples(150))
@given(odd_events, st.integers(1, 2))
def test_odd_events_are_refused_or_give_times(events: list[dict[str, Any]], num_microbatches: int):
    with tempfile.TemporaryDirectory() as folder:
        builders.write(Path(folder) / "trace_view0.json", events)
        try:
            times = read_traces(folder, num_microbatches=num_microbatches)
        except InputError:
            return
    assert times.bodies[0].forward_ns > 0
