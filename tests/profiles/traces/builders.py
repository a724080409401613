"""Traces written from known times, in each format that is read."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

US = 1000


def text_us(time_ns: int) -> str:
    """Microseconds with all digits."""
    return f"{time_ns // US}.{time_ns % US:03d}"


@dataclass
class Truth:
    """What a layer, head or tail took, by step and microbatch: nanoseconds."""

    forward: dict[tuple[int, int], int] = field(default_factory=dict)
    backward: dict[tuple[int, int], int] = field(default_factory=dict)

    def mean(self, phase: str, places: Iterable[tuple[int, int]]) -> Fraction:
        """The mean over steps and microbatches."""
        times = [getattr(self, phase)[place] for place in places]
        return Fraction(sum(times), len(times))


@dataclass
class Case:
    """A stage, and how it ran."""

    layers: list[str]
    head: list[str]
    tail: list[str]
    num_microbatches: int
    num_steps: int
    warm_up: int
    durations: Any
    """Draws a duration in nanoseconds."""

    @property
    def parts(self) -> list[str]:
        return [*self.head, *self.layers, *self.tail]

    def counted(self) -> list[tuple[int, int]]:
        """Steps and microbatches that count: without the first two steps, where there are more."""
        steps = range(self.num_steps - max(self.num_steps - 2, 1), self.num_steps)
        return [(step, mb) for step in steps for mb in range(self.num_microbatches)]

    @property
    def order(self) -> list[tuple[str, int]]:
        """1F1B: forwards and backwards of the stage with their microbatch."""
        warm_up, count = min(self.warm_up, self.num_microbatches), self.num_microbatches
        phases = ["F"] * warm_up + ["F", "B"] * (count - warm_up) + ["B"] * warm_up
        done = {"F": 0, "B": 0}
        found = []
        for phase in phases:
            found.append((phase, done[phase]))
            done[phase] += 1
        return found


@st.composite
def cases(draw: st.DrawFn, *, most_layers: int = 4, fewest_layers: int = 2) -> Case:
    """Small stages of a decoder with or without head and tail."""
    first = draw(st.integers(0, 100))
    count = draw(st.integers(fewest_layers, most_layers))
    return Case(
        layers=[f"{first + index}-LLamaDecodeLayer" for index in range(count)],
        head=draw(st.sampled_from([[], ["tok_embeddings-LlamaEmbedding"]])),
        tail=draw(st.sampled_from([[], ["norm_out-LlamaRMSNorm", "lm_head-Linear"]])),
        num_microbatches=draw(st.integers(1, 3)),
        num_steps=draw(st.integers(1, 4)),
        warm_up=draw(st.integers(0, 3)),
        durations=draw(st.randoms(use_true_random=False)),
    )


def write(path: Path, events: Sequence[dict[str, Any]], *, kineto: bool = False) -> Path:
    """Events as a file, an array or an object as PyTorch writes it."""
    if kineto:
        body = ",\n".join(json.dumps(event, indent=2) for event in events)
        text = f'{{\n  "schemaVersion": 1,\n  "deviceProperties": [{{"id": 0}}],\n  "traceEvents": [\n{body}\n  ],\n'
        text += '  "traceName": "x"\n}\n'
    else:
        text = json.dumps(events)
    path.write_text(text, encoding="utf-8")
    return path


def mindspore(
    case: Case, *, start_ns: int = 1_740_000_000_000_000_123, least_ns: int = 1
) -> tuple[list[dict[str, Any]], dict[str, Truth]]:
    """Rows of a ``Scope Layer`` process, and what each part took; one step more, so that each has an end."""
    truth = {name: Truth() for name in case.parts}
    events: list[dict[str, Any]] = []
    now = start_ns

    def row(name: str, start: int, end: int, tid: int, pid: int = 3) -> None:
        events.append(
            {"name": name, "pid": pid, "tid": tid, "ts": text_us(start), "dur": (end - start) / US, "ph": "X"}
        )

    for step in range(case.num_steps + 1):
        for phase, mb in case.order:
            began = now = now + case.durations.randrange(1, 9_000)
            for name in case.parts if phase == "F" else reversed(case.parts):
                took = case.durations.randrange(least_ns, 99_999)
                getattr(truth[name], "forward" if phase == "F" else "backward")[step, mb] = took
                row(name, now, now + took, 7)
                if "Decode" in name:
                    row("attention_norm-LlamaRMSNorm", now, now + took // 3, 8)
                    if phase == "F":
                        row(f"Default/layers/{name}/MatMul-op{mb}", now, now + took, 2, pid=9)
                now += took
            row("Default" if phase == "F" else "Gradients", began, now, 0)
            if phase == "B":
                row("Default", began, now, 1)  # the second scope of a backward operator is no forward
        row("Default", now, now + 500, 0)  # the optimizer
        now += 700
    events.append({"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "Scope Layer"}})
    return events, truth


@dataclass
class HostRun:
    """A run as the host sees it: ranges, launches and what they start on the device. All times nanoseconds."""

    scopes: list[tuple[str, int, int]] = field(default_factory=list)
    nodes: list[tuple[str, int, int, int | None]] = field(default_factory=list)
    """Name, start, end, and the sequence number of the forward operator, if any."""
    operators: list[tuple[int, int, int]] = field(default_factory=list)
    """Forward operators: start, end, sequence number."""
    steps: list[tuple[int, int]] = field(default_factory=list)
    kernels: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    """Thread (1 forward, 2 backward) and time of the launch, start and end on the device, name."""
    truth: dict[str, Truth] = field(default_factory=dict)


EXCHANGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
"""What NCCL runs for an exchange of tokens."""


def exchanging_run(forward: Sequence[tuple[int, bool]], backward: Sequence[tuple[int, bool]]) -> HostRun:
    """Three steps of two microbatches of one layer, whose kernels run so long one after the other, or exchange tokens.

    The k-th pass takes k times as long.
    """
    run, now, device = HostRun(), 1_000_000, 1_500_000
    for step in range(3):
        began = now
        for mb in range(2):
            sequence = 10 + 2 * step + mb
            for thread, parts in ((1, forward), (2, backward)):
                start = now
                if thread == 1:
                    run.operators.append((now + 1, now + 2, sequence))
                for length, exchanges in parts:
                    now += 5
                    took = length * (2 * step + mb + 1)
                    run.kernels.append((thread, now, device, device + took, EXCHANGE if exchanges else "gemm"))
                    device += took
                now += 5
                if thread == 1:
                    run.scopes.append(("LlamaDecodeLayer_0", start, now))
                else:
                    run.nodes.append(("MmBackward0", start, now, sequence))
                now += 20
        run.steps.append((began, now))
        now += 100
    return run


def host_run(case: Case, *, recompute: bool = False) -> HostRun:
    """Forwards on thread 1 and backwards on thread 2; kernels on two streams, later than their launch, overlapping."""
    run = HostRun(truth={name: Truth() for name in case.parts})
    random, now, device, sequence = case.durations, 1_000_000, 1_500_000, 10
    sequences: dict[tuple[str, int], list[int]] = {}

    def launch(thread: int, count: int, name: str = "gemm") -> int:
        """Kernels launched now; returns the time that at least one of them runs, counted nanosecond by nanosecond."""
        nonlocal now, device
        busy: set[int] = set()
        device = max(device, now)
        for _ in range(count):
            start = device + random.randrange(0, 40)
            end = start + random.randrange(1, 60)
            run.kernels.append((thread, now, start, end, name))
            busy |= set(range(start, end))
            now += random.randrange(1, 30)
        device += 200 + 100 * count
        return len(busy)

    for step in range(case.num_steps):
        began = now
        for phase, mb in case.order:
            now += random.randrange(1, 50)
            if phase == "F":
                for name in case.parts:
                    start = now
                    now += 5
                    sequences[name, mb] = []
                    time = 0
                    for _ in range(random.randrange(1, 3)):
                        run.operators.append((now, now + 1, sequence))
                        now += 2
                        sequences[name, mb].append(sequence)
                        sequence += 1
                    # This one makes no node, so the next part's first operator has the number again.
                    run.operators.append((now, now + 1, sequence))
                    now += 2
                    time += launch(1, random.randrange(1, 4))
                    run.truth[name].forward[step, mb] = time
                    run.scopes.append((name, start, now))
                    now += random.randrange(0, 20)
            else:
                run.nodes.append(("GraphRoot", now, now + 4, None))
                now += 6
                for name in reversed(case.parts):
                    time = 0
                    for index, number in enumerate(reversed(sequences[name, mb])):
                        start = now
                        now += 3
                        if recompute and index == 0 and "Decode" in name:
                            scope_start = now
                            launch(2, 2, "recomputed")
                            run.scopes.append((name, scope_start, now))
                            device += 1000
                        time += launch(2, random.randrange(1, 3))
                        run.nodes.append(("MmBackward0", start, now, number))
                        now += 2
                    start = now
                    time += launch(2, 1, "add")
                    launch(2, 1, "ncclDevKernel_AllReduce")  # of gradients between replicas: no part of the layer
                    run.nodes.append(("AccumulateGrad", start, now, None))
                    run.truth[name].backward[step, mb] = time
                    now += 2
        run.steps.append((began, now))
        now += 100
    return run


def kineto(run: HostRun) -> list[dict[str, Any]]:
    """Events as PyTorch writes them for a GPU."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "ts": 0, "args": {"name": "python"}}
    ]

    def x(cat: str, name: str, tid: int, start: int, end: int, *, pid: int = 77, **args: Any) -> None:
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start / US, "dur": (end - start) / US,
             "args": args}
        )  # fmt: skip

    for index, (start, end) in enumerate(run.steps):
        x("user_annotation", f"ProfilerStep#{index + 7}", 1, start, end)
    for name, start, end in run.scopes:
        in_backward = any(node[1] <= start < node[2] for node in run.nodes)
        x("python_function", f"nn.Module: {name}", 2 if in_backward else 1, start, end)
        x("gpu_user_annotation", name, 5, start, end, pid=0)
    last_operator = {}
    for start, end, sequence in run.operators:
        x("cpu_op", "aten::mm", 1, start, end, **{"Sequence number": sequence, "Fwd thread id": 0})
        last_operator[sequence] = start
    for name, start, end, sequence in run.nodes:
        x("cpu_op", f"autograd::engine::evaluate_function: {name}", 2, start, end)
        if sequence is not None:
            x("cpu_op", name, 2, start + 1, end)
            flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": len(events), "pid": 77}
            events.append({**flow, "ph": "s", "tid": 1, "ts": last_operator[sequence] / US})
            events.append({**flow, "ph": "f", "tid": 2, "ts": (start + 1) / US, "bp": "e"})
    for index, (thread, launched, start, end, name) in enumerate(run.kernels):
        x("cuda_runtime", "cudaLaunchKernel", thread, launched, launched + 1, correlation=900 + index)
        x("kernel", name, 7 + index % 2, start, end, pid=0, correlation=900 + index)
    return events


def torch_npu(run: HostRun) -> list[dict[str, Any]]:
    """Events as torch_npu writes them: text timestamps, flows from operators to rows without a category."""
    events: list[dict[str, Any]] = []

    def x(name: str, tid: int, start: int, end: int, *, pid: int = 77, **more: Any) -> None:
        events.append(
            {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": text_us(start), "dur": (end - start) / US, **more}
        )

    events.append({"ph": "M", "name": "process_name", "pid": 500, "tid": 0, "args": {"name": "Ascend Hardware"}})
    for index, (start, end) in enumerate(run.steps):
        x(f"ProfilerStep#{index + 7}", 1, start, end, cat="cpu_op")
    for name, start, end in run.scopes:
        in_backward = any(node[1] <= start < node[2] for node in run.nodes)
        x(f"nn.Module: {name}", 2 if in_backward else 1, start, end, cat="python_function", args={})
    last_operator = {}
    for start, end, sequence in run.operators:
        x("aten::mm", 1, start, end, cat="cpu_op", args={"Sequence number": sequence, "Fwd thread id": 0})
        last_operator[sequence] = start
    for name, start, end, sequence in run.nodes:
        x(f"autograd::engine::evaluate_function: {name}", 2, start, end, cat="cpu_op", args={})
        if sequence is not None:
            flow = {"bp": "e", "cat": "fwdbwd", "name": "fwdbwd", "id": sequence, "pid": 77}
            events.append({**flow, "ph": "s", "tid": 1, "ts": text_us(last_operator[sequence])})
            events.append({**flow, "ph": "f", "tid": 2, "ts": text_us(start)})
    for index, (thread, launched, start, end, name) in enumerate(run.kernels):
        stream = 20 + index
        x("AscendCL@launch", 9, start, end, pid=400, args={})
        x(
            {"ncclDevKernel_AllReduce": "hcom_allReduce_", EXCHANGE: "hcom_alltoallv__1"}.get(name, f"model/{name}"),
            stream,
            start,
            end,
            pid=500,
            args={"Task Type": "AI_CORE"},
        )
        flow = {"bp": "e", "cat": "async_npu", "name": "torch_to_npu", "id": start}
        events.append({**flow, "ph": "s", "pid": 77, "tid": thread, "ts": text_us(launched)})
        events.append({**flow, "ph": "f", "pid": 500, "tid": stream, "ts": text_us(start)})
    return events


def nsight(path: Path, runs: Sequence[HostRun], *, by_text_id: bool = False, strings: bool = True) -> Path:
    """A report of one or several processes, with the ranges of PyTorch's emit_nvtx."""
    names: dict[str, int] = {}
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
                globalTid INTEGER, textId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
                correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
            """
        )

        def nvtx(process: int, thread: int, name: str, start: int, end: int | None) -> None:
            identifier = names.setdefault(name, len(names) + 1)
            row = (start, end, 59, None if by_text_id else name, process + thread, identifier if by_text_id else None)
            database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", row)

        for index, run in enumerate(runs):
            process = (2**48) + ((300 + index) << 24)
            nvtx(process, 1, "never ended", 0, None)
            for number, (start, end) in enumerate(run.steps):
                nvtx(process, 1, f"iteration {number}", start, end)
            for name, start, end in run.scopes:
                in_backward = any(node[1] <= start < node[2] for node in run.nodes)
                nvtx(process, 2 if in_backward else 1, name, start, end)
            for start, end, sequence in run.operators:
                nvtx(process, 1, f"aten::mm, seq = {sequence}, op_id = 3", start, end)
            for name, start, end, sequence in run.nodes:
                number = "" if sequence is None else f", seq = {sequence}"
                nvtx(process, 2, f"autograd::engine::evaluate_function: {name}{number}", start, end)
            for number, (thread, launched, start, end, name) in enumerate(run.kernels):
                identifier = names.setdefault(name, len(names) + 1)
                row = (launched, launched + 1, process + thread, number, 1)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", row)
                kernel = (start, end, 0, 7, number, process, identifier)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", kernel)
        if strings:
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(value, key) for key, value in names.items()])
    database.close()
    return path
