"""A step under torch's profiler, as a trace of each rank that ``evenflow report`` opens beside the plan."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


def write_profile(
    folder: Path, rank: int, run: Callable[[], object], *, is_written: bool, device: torch.device
) -> None:
    """Run a step of this process under the profiler; write what was seen as that of a rank, if it `is_written`.

    The ranges of its actions have names such as ``PP:2F3``, which torch's runtime gives them.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with profile(activities=activities) as seen:
        run()
    if not is_written:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{rank}.json"
    seen.export_chrome_trace(str(path))
    trace = json.loads(path.read_text(encoding="utf-8"))
    trace.setdefault("distributedInfo", {})["rank"] = rank  # that of the pipeline, which replicas and devices share
    path.write_text(json.dumps(trace), encoding="utf-8")
