"""Speed and memory of reading traces, beside `json.load`."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import aligned
from evenflow.profiles.traces import LayerNames, read_traces

MEGABYTE = 1_000_000
READERS = ("evenflow", "json.load")
MICROBATCHES, LAYERS, OPERATORS = 8, 6, 60
SCOPES = 3
"""The process id of the scopes' rows."""

_SCOPE = (
    "Default/network-MFPipelineWithLossScaleCell/network-_VirtualDatasetCell/_backbone-GradAccumulationCell/"
    "network-LlamaForCausalLM/model-LlamaModel/layers-CellList/"
)
_KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpeed:
    """The reading of one file by one program in a process of its own."""

    trace: str
    reader: str
    megabytes: float
    seconds: float
    peak_bytes: int

    @property
    def megabytes_per_second(self) -> float:
        """Speed in 10^6 bytes per second."""
        return self.megabytes / self.seconds


def measure_traces(size_mb: int) -> list[TraceSpeed]:
    """Read an Ascend and a PyTorch trace of `size_mb` megabytes, each with both programs."""
    speeds = []
    for trace, write in (("ascend", _write_ascend), ("pytorch", _write_pytorch)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace_view0.json"
            write(path, size_mb * MEGABYTE)
            for reader in READERS:
                command = [sys.executable, "-m", "benchmarks", "one-trace", reader, str(path)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                seconds, peak = json.loads(output)
                size = path.stat().st_size / MEGABYTE
                speeds.append(TraceSpeed(trace=trace, reader=reader, megabytes=size, seconds=seconds, peak_bytes=peak))
    return speeds


def read_one(reader: str, path: Path) -> tuple[float, int]:
    """Return seconds and peak memory of reading `path` in this process."""
    began = time.perf_counter()
    if reader == "json.load":
        with path.open(encoding="utf-8") as file:
            json.load(file)
    else:
        read_traces(path, num_microbatches=MICROBATCHES, names=LayerNames(head=(), body=("LLamaDecodeLayer",), tail=()))
    return time.perf_counter() - began, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def report(speeds: list[TraceSpeed]) -> str:
    """Return a row for each file and program."""
    rows = [
        [
            f"{speed.trace}, {speed.reader}",
            f"{speed.megabytes:,.0f}",
            f"{speed.seconds:.1f}",
            f"{speed.megabytes_per_second:,.0f}",
            f"{speed.peak_bytes / 2**20:,.0f}",
        ]
        for speed in speeds
    ]
    return aligned(["trace, reader", "MB", "s", "MB/s", "peak MiB"], rows)


def _write_ascend(path: Path, size_bytes: int) -> None:
    """Write a trace like MindSpore's: operators by their full name on the device, then the rows of the scopes."""
    label = {"name": "process_name", "pid": SCOPES, "tid": 0, "args": {"name": "Scope Layer"}, "ph": "M"}
    rows = [label]
    now_ns = 1_740_000_000_000_000_000
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while file.tell() < size_bytes:
            for _ in range(MICROBATCHES):
                start_ns = now_ns
                for layer in range(LAYERS):
                    name = f"{layer}-LLamaDecodeLayer"
                    for operator in range(OPERATORS):
                        now_ns += 20_113
                        args = {"Model Id": 1, "Task Type": "AI_CORE", "Physic Stream Id": 3, "Task Id": now_ns % 2**32}
                        args |= {"Batch Id": 0, "Subtask Id": 2**32 - 1, "connection_id": now_ns % 2**32}
                        event = _row(f"{_SCOPE}{name}/attention-LLamaAttention/Mul-op{operator}", now_ns, 18_020, 4)
                        file.write(json.dumps(event | {"args": args}) + ", ")
                    rows.append(_row(name, now_ns - OPERATORS * 20_113, OPERATORS * 20_113, SCOPES))
                rows.append(_row("Default", start_ns, now_ns - start_ns, SCOPES))
        file.write(", ".join(map(json.dumps, rows)) + "]")


def _row(name: str, start_ns: int, duration_ns: int, pid: int) -> dict[str, object]:
    time_us = f"{start_ns // 1000}.{start_ns % 1000:03d}"
    tid = 0 if name == "Default" else 7
    return {"name": name, "pid": pid, "tid": tid, "ts": time_us, "dur": duration_ns / 1000, "ph": "X"}


def _write_pytorch(path: Path, size_bytes: int) -> None:
    """Write a trace like Kineto's: ranges and operators on the host, launches and kernels, indented."""
    host = {"ph": "X", "pid": 1, "tid": 1}
    kernel = {"queued": 0, "device": 0, "context": 1, "stream": 7, "registers per thread": 16, "shared memory": 0,
              "blocks per SM": 0.1, "warps per SM": 0.2, "grid": [1, 1, 1], "block": [128, 1, 1]}  # fmt: skip
    now_us, number = 4_396_005_481_758.259, 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{\n"schemaVersion": 1,\n"deviceProperties": [],\n"traceEvents": [\n')
        file.write('{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}')
        while file.tell() < size_bytes:
            for layer in [*range(LAYERS)] * MICROBATCHES:
                start_us = now_us
                for _ in range(OPERATORS):
                    number += 1
                    now_us = round(now_us + 20.113, 3)
                    launch = {"External id": number, "cbid": 211, "correlation": number}
                    operator = {"External id": number, "Record function id": 0, "Sequence number": number, "Ev Idx": 7}
                    device = {"ph": "X", "cat": "kernel", "name": _KERNEL, "pid": 0, "tid": 7, "ts": now_us + 900}
                    for event in (
                        host | {"cat": "cpu_op", "name": "aten::mm", "ts": now_us, "dur": 12.1, "args": operator},
                        host | {"cat": "cuda_runtime", "name": "cudaLaunch", "ts": now_us, "dur": 4.2, "args": launch},
                        device | {"dur": 18.02, "args": kernel | launch},
                    ):
                        file.write(",\n" + json.dumps(event, indent=2))
                annotation = {"cat": "user_annotation", "name": f"{layer}-LLamaDecodeLayer"}
                span = {"ts": start_us + 1, "dur": now_us - start_us, "args": {}}
                file.write(",\n" + json.dumps(host | annotation | span, indent=2))
        file.write('\n],\n"traceName": "trace.json"\n}\n')
