"""Steps that were simulated, recorded as every tool records a measured one."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from evenflow.baselines.equal_stages import equal_stages
from evenflow.model import Communication
from evenflow.schedule import Op, make_schedule
from evenflow.simulate import Timeline, run

PREFIXES = {"forward": "fwd", "backward": "bwd", "weight": "wgrad"}
FAMILIES = ("1f1b", "f-then-b", "zb-h1", "interleaved", "zbv", "v-half", "dualpipe-v")
CHUNKS = {"interleaved": 2, "zbv": 2, "v-half": 2, "dualpipe-v": 2}


@st.composite
def timelines(draw: st.DrawFn, *, families: tuple[str, ...] = FAMILIES) -> Timeline:
    """Steps of any of these families on stages of any times of 1 us or more, with messages that take time."""
    family = draw(st.sampled_from(families))
    ranks = draw(st.integers(1, 4))
    schedule = make_schedule(
        family,
        num_ranks=ranks,
        num_chunks=CHUNKS.get(family, 1),
        num_microbatches=ranks * draw(st.integers(1, 3)),
    )
    simulation = equal_stages(schedule, forward_ns=1000, backward_ns=2000)
    costs = simulation.costs
    spread = draw(st.lists(st.integers(1000, 9999), min_size=len(costs.durations), max_size=len(costs.durations)))
    durations = costs.durations * 0 + spread
    return run(simulation.timeline.graph, durations, Communication(latency_ns=draw(st.integers(0, 5000))))


def kind_of(op: Op) -> str:
    return {Op.F: "forward", Op.W: "weight"}.get(op, "backward")


def rows_of(timeline: Timeline, rank: int, offset_ns: int = 0) -> dict[str, list[tuple[int, int, int, int]]]:
    """Start, end, microbatch and chunk of a rank's actions by kind, in order, by its own clock."""
    schedule = timeline.schedule
    rows: dict[str, list[tuple[int, int, int, int]]] = {kind: [] for kind in PREFIXES}
    for index in range(*schedule.rank_starts[rank : rank + 2]):
        start, end = (int(times[index]) + offset_ns for times in (timeline.start_ns, timeline.end_ns))
        chunk = int(schedule.stage_chunks[schedule.stages[index]])
        rows[kind_of(Op(int(schedule.ops[index])))].append((start, end, int(schedule.units[index]), chunk))
    return rows


def primus_iteration(timeline: Timeline, rank: int, *, offset_ns: int = 0, names: bool = True) -> dict[str, Any]:
    """An iteration of a rank as Primus dumps it; Megatron's own schedules record no `names`."""
    iteration: dict[str, Any] = {"total": timeline.makespan_ns / 1e6, "memory": 10.5 + rank}
    for kind, rows in rows_of(timeline, rank, offset_ns).items():
        prefix = PREFIXES[kind]
        iteration[f"{prefix}_start"] = [row[0] / 1e6 for row in rows]
        iteration[f"{prefix}_end"] = [row[1] / 1e6 for row in rows]
        iteration[f"{prefix}_minibatch"] = [row[2] for row in rows] if names else []
        iteration[f"{prefix}_chunk"] = [row[3] for row in rows] if names else []
    return iteration


def write_primus(
    folder: Path, timeline: Timeline, *, offsets_ns: Sequence[int] = (), names: bool = True, iterations: int = 1
) -> Path:
    """The folder that Primus dumps; of several iterations, all but the last but one are longer."""
    folder.mkdir(exist_ok=True)
    schedule = timeline.schedule
    config = {"pp_size": schedule.num_ranks, "vp_size": schedule.num_chunks, "num_mbs": schedule.num_microbatches}
    (folder / "config.json").write_text(json.dumps({"world_size": 8, "dp_size": 1, **config, "train_iters": 9}))
    for rank in range(schedule.num_ranks):
        offset = offsets_ns[rank] if offsets_ns else 0
        one = primus_iteration(timeline, rank, offset_ns=offset, names=names)
        every = {str(number + 1): one for number in range(iterations)}
        (folder / f"pp_rank_{rank}.json").write_text(json.dumps(every, indent=2))
    return folder


def step_fields(timeline: Timeline, *, offsets_ns: Sequence[int] = (), order: bool = True) -> dict[str, Any]:
    """The file of docs/report.md."""
    schedule = timeline.schedule
    steps, orders = [], {}
    for rank in range(schedule.num_ranks):
        rows = rows_of(timeline, rank, offsets_ns[rank] if offsets_ns else 0)
        kinds = [kind for kind in rows if kind != "weight" or rows[kind]]
        spans = {f"{kind}_ms": [[start / 1e6, end / 1e6] for start, end, _, _ in rows[kind]] for kind in kinds}
        steps.append({"step": 7, "rank": rank, "memory_gb": 40.0, **spans})
        orders[str(rank)] = {kind: [[unit, chunk] for _, _, unit, chunk in rows[kind]] for kind in kinds}
    sizes = {"ranks": schedule.num_ranks, "chunks": schedule.num_chunks, "microbatches": schedule.num_microbatches}
    return {**sizes, "steps": steps, **({"order": orders} if order else {})}


def named_actions(timeline: Timeline, rank: int, offset_ns: int = 0) -> list[tuple[str, int, int]]:
    """Name, start and end of a rank's actions, as torch.distributed.pipelining names them."""
    schedule = timeline.schedule
    first = schedule.rank_starts[rank]
    return [
        (f"PP:{action}", int(timeline.start_ns[index]) + offset_ns, int(timeline.end_ns[index]) + offset_ns)
        for index, action in enumerate(schedule.order(rank), start=first)
    ]


LAG_NS = 400
"""Time from a launch to its kernel."""


def kineto_events(actions: Sequence[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """A trace of a GPU: the host launches two kernels in each range, from two threads, and a message runs before."""
    events: list[dict[str, Any]] = []

    def add(category: str, name: str, start: int, end: int, thread: int, correlation: int | None = None) -> None:
        arguments = {} if correlation is None else {"args": {"correlation": correlation}}
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, **times, **arguments})

    for number, (name, start, end) in enumerate(actions):
        add("user_annotation", name, start - LAG_NS, start - 100, 1)
        middle = (start + end) // 2
        for part, (kernel, begin, stop) in enumerate(
            (("ncclDevKernel_SendRecv", start - 300, start - 10), ("gemm", start, middle), ("gemm", middle, end))
        ):
            correlation = 3 * number + part + 1
            add("cuda_runtime", "cudaLaunchKernel", start - 350 + part, start - 349 + part, 1 + part % 2, correlation)
            add("kernel", kernel, begin, stop, 7, correlation)
    return events


def write_report(path: Path, ranks: Sequence[Sequence[tuple[str, int, int]]]) -> Path:
    """A report of Nsight Systems with a process for each rank."""
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, globalTid INTEGER, correlationId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, correlationId INTEGER,
                globalPid INTEGER, shortName INTEGER);
            INSERT INTO StringIds VALUES (1, 'gemm');
            """
        )
        for rank, actions in enumerate(ranks):
            process = (300 + rank) << 24
            for number, (name, start, end) in enumerate(actions):
                row = (start - LAG_NS, start - 100, 59, name, process + 1)
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", row)
                launch = (start - 350, process + 1, number)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?)", launch)
                kernel = (start, end, number, process, 1)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", kernel)
    database.close()
    return path


def unnamed_events(
    timeline: Timeline, rank: int, *, step_ns: int, steps: int = 1, has_autograd: bool = True
) -> list[dict[str, Any]]:
    """A trace of a GPU that names no action: autograd launches backwards, and messages run between.

    Without autograd, kernels have names of both directions. In every step the host launches each action in two parts;
    an optimizer follows, and a norm of gradients.
    """
    schedule = timeline.schedule
    graph = timeline.graph
    sends = {
        int(source) for action, source in enumerate(graph.inputs) if source >= 0 and _crosses(schedule, action, source)
    }
    events: list[dict[str, Any]] = []
    launches = 0

    def add(category: str, name: str, start: int, end: int, thread: int = 1, **arguments: object) -> None:
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        events.append({"ph": "X", "cat": category, "name": name, "pid": 5, "tid": thread, **times, "args": arguments})

    def launch(kernel: str, host: int, start: int, end: int, thread: int = 1, **arguments: object) -> None:
        nonlocal launches
        launches += 1
        add("cuda_runtime", "cudaLaunchKernel", host, host + 1, thread, correlation=launches)
        add("kernel", kernel, start, end, 7, correlation=launches, **arguments)

    for step in range(steps):
        base = 10**6 + step * step_ns
        add("user_annotation", f"ProfilerStep#{step}", base - 1000, base + step_ns - 1500)
        for index in range(*schedule.rank_starts[rank : rank + 2]):
            start, end = (int(times[index]) + base for times in (timeline.start_ns, timeline.end_ns))
            source = int(graph.inputs[index])
            if source >= 0 and _crosses(schedule, index, source):
                launch("ncclDevKernel_SendRecv", start - 300, start - 20, start, **{"Collective name": "recv"})
            is_backward = schedule.ops[index] != Op.F
            thread = 2 if is_backward else 1
            if is_backward and has_autograd:
                add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", start - 250, start - 150, thread)
            elif has_autograd:
                flow = {"cat": "fwdbwd", "name": "fwdbwd", "pid": 5, "id": launches}
                events.append({"ph": "s", "tid": 1, "ts": (start - 240) / 1000, **flow})
                events.append({"ph": "f", "tid": 2, "ts": (start - 140) / 1000, **flow})
            middle = (start + end) // 2
            named = "gemm" if has_autograd else "flash_bwd_kernel" if is_backward else "flash_fwd_kernel"
            launch(named, start - 240, start, middle, thread)
            launch("gemm", start - 230, middle, end, thread)
            if index in sends:
                launch("ncclDevKernel_SendRecv", start - 120, end, end + 10, **{"Collective name": "send"})
        last = base + timeline.makespan_ns
        add("user_annotation", "Optimizer.step#Adam.step", last + 100, last + 200)
        launch("adam", last + 150, last + 300, last + 900)
        launch("norm", last + 250, last + 950, last + 951)
    return sorted(events, key=lambda event: event["ts"])


def _crosses(schedule: Any, action: int, source: int) -> bool:
    return bool(schedule.ranks[action] != schedule.ranks[source])


def npu_events(timeline: Timeline, rank: int) -> list[dict[str, Any]]:
    """A trace of torch_npu that names no action: flows join operators to the device, and none joins messages."""
    schedule, graph = timeline.schedule, timeline.graph
    sends = {
        int(source) for action, source in enumerate(graph.inputs) if source >= 0 and _crosses(schedule, action, source)
    }
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((1, "Python"), (2, "Ascend Hardware"), (3, "Communication"))
    ]

    def add(pid: int, tid: int, name: str, start: int, end: int, **more: object) -> None:
        times = {"ts": f"{start / 1000:.3f}", "dur": (end - start) / 1000}
        events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, **times, **more})

    for number, index in enumerate(range(*schedule.rank_starts[rank : rank + 2])):
        start, end = (int(times[index]) + 10**6 for times in (timeline.start_ns, timeline.end_ns))
        source = int(graph.inputs[index])
        if source >= 0 and _crosses(schedule, index, source):
            add(3, 1, f"hcom_receive__{number}_0_1", start - 30, start - 10)
        if index in sends:
            add(3, 1, f"hcom_send__{number}_0_1", end, end + 5)
        is_backward = schedule.ops[index] != Op.F
        node = "autograd::engine::evaluate_function: MmBackward0" if is_backward else "aten::mm"
        host = start - 250
        add(1, 2 if is_backward else 1, node, host, host + 100, cat="cpu_op")
        add(2, 1, "MatMul", start, end)
        flow = {"cat": "async_npu", "name": "torch_to_npu", "id": number}
        events.append({"ph": "s", "pid": 1, "tid": 2 if is_backward else 1, "ts": f"{(host + 10) / 1000:.3f}", **flow})
        events.append({"ph": "f", "pid": 2, "tid": 1, "ts": f"{start / 1000:.3f}", **flow})
    return events
