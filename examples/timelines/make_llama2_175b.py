"""Make the timelines in ``llama2_175b/``: python examples/timelines/make_llama2_175b.py

They are synthetic, and have the structure of MindSpore's ``trace_view.json`` of a MindFormers llama on Ascend: 96
layers on 16 pipeline ranks, 8 microbatches, 5 profiled steps, ranks 0, 7 and 15. Their times are those of
``examples/llama2_175b.json``: a forward takes 1.21 ms in the head, 21.99 ms in a layer and 17.9 ms in the tail, on the
average of the counted steps; a backward takes twice that.

    thread 0  Default                                      Gradients
    thread 1    network-MFPipelineWithLossScaleCell          Default
      …           …
    thread 6          layers-CellList                            …
    thread 7            42-LLamaDecodeLayer, 43-…                layers-CellList
    thread 8              attention_norm-LlamaRMSNorm              47-LLamaDecodeLayer, 46-…
"""

import json
from pathlib import Path

RANKS, LAYERS, MICROBATCHES, STEPS = 16, 96, 8, 5
HEAD_US, LAYER_US, NORM_US, OUTPUT_US = 1210.0, 21990.0, 1000.0, 16900.0
LAYER_OFFSETS_US = (-60.0, -30.0, -10.0, 10.0, 30.0, 60.0)
"""Differences in time between equal layers, in microseconds; their mean over a stage is 0."""
WARM_UP = (1.12, 1.03)
"""Factors by which the first steps are slower; the reader leaves those steps out."""
START_US = 1_740_103_272_000_000.0
MINDSPORE, SCOPES, HARDWARE = 1, 3, 4
PARENTS = (
    "network-MFPipelineWithLossScaleCell", "network-_VirtualDatasetCell", "_backbone-GradAccumulationCell",
    "network-LlamaForCausalLM", "model-LlamaModel",
)  # fmt: skip


class Trace:
    """Events of one rank; `now_us` is the time of its device."""

    def __init__(self) -> None:
        self.now_us = START_US
        names = {MINDSPORE: "MindSpore", HARDWARE: "Ascend Hardware", SCOPES: "Scope Layer"}
        self.events: list[dict[str, object]] = [
            {"name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}, "ph": "M"}
            for pid, name in names.items()
        ]

    def row(self, name: str, start_us: float, end_us: float, *, tid: int, pid: int = SCOPES) -> None:
        """Add an event. A timestamp is text with three digits after the point, a duration is a number."""
        duration_us = round(end_us - start_us, 3)
        self.events.append(
            {"name": name, "pid": pid, "tid": tid, "ts": f"{start_us:.3f}", "dur": duration_us, "ph": "X"}
        )


def trace_of(rank: int) -> Trace:
    """Make the timeline of one rank: 1F1B, step after step."""
    trace = Trace()
    warm_up = min(RANKS - rank - 1, MICROBATCHES)
    for step in range(STEPS):
        # The host runs ahead: its mark of the step is long over when the device is at work.
        mark_us = START_US - 5000 + 900 * step
        trace.row(f"ProfilerStep#{step + 3}", mark_us, mark_us + 900, pid=MINDSPORE, tid=11)
        factor = WARM_UP[step] if step < len(WARM_UP) else 1.0
        done = {"F": 0, "B": 0}
        for phase in "F" * warm_up + "FB" * (MICROBATCHES - warm_up) + "B" * warm_up:
            trace.now_us += 250.0  # waits for its neighbour
            run_pass(trace, rank, phase, done[phase], factor)
            done[phase] += 1
        trace.now_us += 5000.0  # optimizer
    return trace


def run_pass(trace: Trace, rank: int, phase: str, microbatch: int, factor: float) -> None:
    """Add a forward or backward of one microbatch through the stage."""
    top = ("Default", *PARENTS) if phase == "F" else ("Gradients", "Default", *PARENTS)
    # Microbatches differ by a little that adds up to nothing.
    scale = (1 if phase == "F" else 2) * factor * (1 + (2 * microbatch - MICROBATCHES + 1) / 10_000)
    start_us = trace.now_us
    parts = stage(rank, len(top))
    for name, duration_us, tid in parts if phase == "F" else reversed(parts):
        began_us, trace.now_us = trace.now_us, trace.now_us + duration_us * scale
        trace.row(name, began_us, trace.now_us, tid=tid)
        if phase == "F" and "Decode" in name:
            trace.row("attention_norm-LlamaRMSNorm", began_us, began_us + 310, tid=tid + 1)
            if name == first_layer(parts):
                scopes = "/".join((*top, "layers-CellList", name, "attention-LLamaAttention"))
                operator = f"{scopes}/MatMul-op{microbatch}"
                trace.row(operator, began_us + 320, began_us + 3220, pid=HARDWARE, tid=2)
    for tid, name in enumerate(top):
        trace.row(name, start_us, trace.now_us, tid=tid)


def stage(rank: int, depth: int) -> list[tuple[str, float, int]]:
    """Return the layers of a rank: name, forward in microseconds, thread."""
    first = rank * (LAYERS // RANKS)
    parts = [
        (f"{first + index}-LLamaDecodeLayer", LAYER_US + offset_us, depth + 1)
        for index, offset_us in enumerate(LAYER_OFFSETS_US)
    ]
    if rank == 0:
        parts.insert(0, ("tok_embeddings-LlamaEmbedding", HEAD_US, depth))
    if rank == RANKS - 1:
        parts += [("norm_out-LlamaRMSNorm", NORM_US, depth), ("lm_head-Linear", OUTPUT_US, depth - 1)]
    return parts


def first_layer(parts: list[tuple[str, float, int]]) -> str:
    """Return the name of the first decoder layer."""
    return next(name for name, _, _ in parts if "Decode" in name)


def text_of(rank: int) -> str:
    """Write the file of one rank."""
    return "[" + ",\n".join(json.dumps(event) for event in trace_of(rank).events) + "]\n"


if __name__ == "__main__":
    folder = Path(__file__).parent / "llama2_175b"
    folder.mkdir(exist_ok=True)
    for number in (0, 7, 15):
        (folder / f"trace_view{number}.json").write_text(text_of(number), encoding="utf-8")
