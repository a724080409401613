"""The command that plans the pipeline of a prediction, from the layer file that was written of it."""

import shlex
from pathlib import Path

from evenflow.predict.prediction import Prediction
from evenflow.units import MEGABYTE


def plan_command(prediction: Prediction, layer_file: Path | None, *, memory_limit_bytes: int) -> str:
    """Return ``evenflow plan`` with the sizes, messages and memory of the prediction; empty without a layer file.

    Its limit leaves the reserve out. Of messages that differ it has the longest, exact to the nanosecond.
    """
    if layer_file is None:
        return ""
    simulation = prediction.simulation
    plan, messages = simulation.plan, simulation.communication
    words = [
        "evenflow", "plan", shlex.quote(str(layer_file)), "--ranks", str(plan.num_ranks),
        "--microbatches", str(plan.num_microbatches),
    ]  # fmt: skip
    if plan.num_chunks > 1:
        words += ["--chunks", str(plan.num_chunks)]
    if prediction.training.schedule is not None:
        words += ["--schedule", plan.schedule]
    seen = min(  # the planner does not know the reserve, a share of what a rank holds
        peak / one.total_bytes for one, peak in zip(prediction.memory, simulation.peak_memory_bytes, strict=True)
    )
    limit = int(memory_limit_bytes * seen) // MEGABYTE
    if limit > 0:
        words += ["--memory", f"{limit}MB"]
    if messages is not None:
        words += ["--p2p-latency", f"{messages.message_ns}ns"]
    return " ".join(words)
