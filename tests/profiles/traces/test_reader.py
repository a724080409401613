"""A folder of traces: which files count, names, steps, spread, notes, and one message for what is wrong."""

import gzip
import json
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.traces import LayerNames, read_traces
from tests.profiles.traces import builders
from tests.profiles.traces.builders import Case

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "timelines" / "llama2_175b"
CPU_TRACE = Path(__file__).with_name("fixtures") / "two_layers_on_cpu.pt.trace.json.gz"
TORCH_NAMES = LayerNames(head=("Embedding",), body=("Layer_",), tail=("Linear",))


def case(**changes: Any) -> Case:
    settings = {
        "layers": ["4-LLamaDecodeLayer", "5-LLamaDecodeLayer"], "head": [], "tail": [],
        "num_microbatches": 2, "num_steps": 3, "warm_up": 1, "durations": Random(1),
    }  # fmt: skip
    return Case(**(settings | changes))


def row(name: str, start_us: int, duration_us: int, tid: int = 7) -> dict[str, Any]:
    return {"name": name, "pid": 3, "tid": tid, "ts": f"{start_us}.000", "dur": duration_us, "ph": "X"}


SCOPE_PROCESS = {"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "Scope Layer"}}


def forwards(*rows: dict[str, Any], path: Path) -> Path:
    """A trace whose rows are all within one forward window."""
    return builders.write(path, [row("Default", 0, 10**9, tid=0), *rows, SCOPE_PROCESS])


# A trace of a real run ------------------------------------------------------------------------------------------------


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


# Which scopes count ---------------------------------------------------------------------------------------------------


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


def test_several_body_names_are_kinds_and_the_longest_name_counts(tmp_path: Path):
    path = forwards(
        row("0-Layer", 0, 10), row("1-MoeLayer", 10, 20), row("2-MoeLayer", 30, 40), path=tmp_path / "trace_view0.json"
    )
    times = read_traces(path, num_microbatches=1, names=LayerNames(head=(), body=("Layer", "MoeLayer"), tail=()))
    assert [(body.name, body.forward_ns) for body in times.bodies] == [("Layer", 10_000), ("MoeLayer", 30_000)]
    assert times.bodies[1].forward_spread.minimum_ns == 20_000
    assert times.bodies[1].forward_spread.maximum_ns == 40_000
    assert times.bodies[1].backward_ns is None
    assert times.files[0].num_layers == 3


def test_a_name_without_a_number_is_that_of_several_layers(tmp_path: Path):
    rows = [row("decoder", 10 * index, index + 1) for index in range(6)]
    path = forwards(*rows, row("step 1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json")
    times = read_traces(path, num_microbatches=2, names=LayerNames(head=(), body=("decoder",), tail=()))
    assert times.files[0].num_layers == 3
    assert times.bodies[0].forward_ns == 3_500


# Steps ----------------------------------------------------------------------------------------------------------------


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


def test_more_forwards_than_microbatches_are_said(tmp_path: Path):
    rows = [row(f"{layer}-LLamaDecodeLayer", 100 * index + 10 * layer, 8) for index in range(4) for layer in range(2)]
    path = forwards(*rows, row("ProfilerStep#1", 0, 1000, tid=1), path=tmp_path / "trace_view0.json")
    times = read_traces(path, num_microbatches=2)
    assert times.bodies[0].forward_ns == 16_000
    (note,) = (note for note in times.notes if "runs forward" in note)
    assert note.startswith("trace_view0.json: a layer runs forward 4 times a step, not 2")


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


def test_a_backward_that_is_cut_off_is_not_taken(tmp_path: Path):
    rows = [row("Gradients", 2 * 10**9, 100, tid=0), row("0-LLamaDecodeLayer", 2 * 10**9, 70)]
    layers = [row("0-LLamaDecodeLayer", 100 * index, 10) for index in range(2)]
    path = forwards(*layers, *rows, path=tmp_path / "trace_view0.json")
    (body,) = read_traces(path, num_microbatches=2).bodies
    assert (body.forward_ns, body.backward_ns) == (10_000, None)


# Files ----------------------------------------------------------------------------------------------------------------


def test_in_an_ascend_folder_only_timelines_are_read(tmp_path: Path):
    for name in ("trace_view10.json", "trace_view2.json"):
        forwards(row("0-LLamaDecodeLayer", 0, 10), path=tmp_path / name)
    (tmp_path / "communication.json").write_text('{"step": {}}')
    (tmp_path / "step_trace_time.csv").write_text("")
    times = read_traces(tmp_path, num_microbatches=1)
    assert [Path(file.file).name for file in times.files] == ["trace_view2.json", "trace_view10.json"]


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


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(InputError) as refused:
        read_traces(folder, **({"num_microbatches": 1} | options))
    return str(refused.value)


def test_missing_names_are_refused_with_those_that_are_there(tmp_path: Path):
    path = forwards(
        row("0-GptLayer", 0, 10), row("1-GptLayer", 10, 10), row("ln_f-LayerNorm", 20, 5),
        path=tmp_path / "trace_view0.json",
    )  # fmt: skip
    message = refusal(path)
    assert "'GptLayer' (2), 'ln_f-LayerNorm' (1)" in message
    assert "got 'LLamaDecodeLayer'; name the layers of your model with --body" in message
    assert "--tail" in refusal(path, names=LayerNames(body=("GptLayer",), tail=("Head",)))
    times = read_traces(path, num_microbatches=1, names=LayerNames(body=("GptLayer",)))
    assert times.head is None
    assert times.tail is None
    assert "no trace has a head layer named LlamaEmbedding" in times.notes


def test_bad_folders_are_refused(tmp_path: Path):
    assert "missing: no such file" in refusal(tmp_path / "missing")
    assert "must have traces: files" in refusal(tmp_path)
    (tmp_path / "rank0.nsys-rep").write_bytes(b"")
    assert "run nsys export --type sqlite rank0.nsys-rep" in refusal(tmp_path)
    (tmp_path / "notes.json").write_text('{"a": 1}')
    assert "leave only traces in the folder" in refusal(tmp_path)


def test_more_layers_than_the_model_has_are_refused():
    assert "must be at least the 6 that this stage runs, got 5" in refusal(EXAMPLE, num_microbatches=8, num_layers=5)
    assert "microbatches must be at least 1, got 0" in refusal(EXAMPLE, num_microbatches=0)


@pytest.mark.parametrize(
    "names",
    [{"body": ()}, {"head": ("",)}, {"head": ("A",), "tail": ("A",)}, {"body": ("A", "A")}],
)
def test_bad_names_are_refused(names: dict[str, tuple[str, ...]]):
    with pytest.raises(InputError):
        LayerNames(**names)


def test_kernels_that_nothing_launched_are_refused(tmp_path: Path):
    run = builders.host_run(case())
    kineto = [event for event in builders.kineto(run) if event.get("cat") != "cuda_runtime"]
    path = builders.write(tmp_path / "a.json", kineto, kineto=True)
    assert "must join the kernels of the device to the host by a launch" in refusal(path, num_microbatches=2)
    npu = [event for event in builders.torch_npu(run) if event.get("cat") != "async_npu"]
    path = builders.write(tmp_path / "trace_view.json", npu)
    assert "must join the kernels of the device to the host by a torch_to_npu flow" in refusal(path, num_microbatches=2)


def test_layers_that_launch_nothing_are_refused(tmp_path: Path):
    run = builders.host_run(case())
    run.kernels = [(9, *kernel[1:]) for kernel in run.kernels]
    path = builders.write(tmp_path / "a.json", builders.kineto(run), kineto=True)
    assert "the scopes of this one launch nothing" in refusal(path, num_microbatches=2)


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


@settings(max_examples=150)
@given(odd_events, st.integers(1, 2))
def test_odd_events_are_refused_or_give_times(events: list[dict[str, Any]], num_microbatches: int):
    with tempfile.TemporaryDirectory() as folder:
        builders.write(Path(folder) / "trace_view0.json", events)
        try:
            times = read_traces(folder, num_microbatches=num_microbatches)
        except InputError:
            return
    assert times.bodies[0].forward_ns > 0


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
