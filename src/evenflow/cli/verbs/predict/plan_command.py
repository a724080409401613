"""The command that plans the pipeline of a prediction, from the layer file that was written of it."""

import shlex
from pathlib import Path

from evenflow.export.results.prediction_fields import NextPlan
from evenflow.predict.prediction import Prediction
from evenflow.simulate import simulate
from evenflow.units import MEGABYTE


def next_plan(prediction: Prediction, layer_file: Path, *, memory_limit_bytes: int) -> NextPlan:
    """Return ``evenflow plan`` with the sizes, messages and memory of the prediction.

    Its limit leaves the reserve out. The planner has one message time for all stages, here the longest, and sends
    under computation: `pipeline_ns` is what the predicted plan takes there.
    """
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
    if plan.group_size is not None:
        words += ["--group-size", str(plan.group_size)]
    seen = min(  # the planner does not know the reserve, a share of what a rank holds
        peak / one.total_bytes for one, peak in zip(prediction.memory, simulation.peak_memory_bytes, strict=True)
    )
    limit = int(memory_limit_bytes * seen) // MEGABYTE
    if limit > 0:
        words += ["--memory", f"{limit}MB"]
    if messages is not None:
        words += ["--p2p-latency", f"{messages.message_ns}ns"]
    there = simulate(prediction.priced.network, plan, communication=messages)
    return NextPlan(command=" ".join(words), pipeline_ns=there.makespan_ns)
