"""The command that plans the pipeline of a prediction, from the layer file that was written of it."""

import shlex
from pathlib import Path

from evenflow.cli.shared.training.planner_inputs import PlannerInputs
from evenflow.export.results.prediction_fields import NextPlan
from evenflow.predict.prediction import Prediction
from evenflow.simulate import simulate
from evenflow.targets.further_tokens import with_mtp_last
from evenflow.units import MEGABYTE


def next_plan(prediction: Prediction, inputs: PlannerInputs, layer_file: Path) -> NextPlan:
    """Return ``evenflow plan`` with the sizes, messages and memory of the prediction.

    The limit of `inputs` leaves the reserve out. The planner has one message time for all stages, here the longest, and
    sends under computation: `pipeline_ns` is what the predicted plan takes there.
    """
    plan = with_mtp_last(prediction.simulation.plan, inputs.network.mtp_layers)
    arguments = [
        "evenflow", "plan", shlex.quote(str(layer_file)), "--ranks", str(plan.num_ranks),
        "--microbatches", str(plan.num_microbatches),
    ]  # fmt: skip
    if plan.num_chunks > 1:
        arguments += ["--chunks", str(plan.num_chunks)]
    if prediction.training.schedule is not None:
        arguments += ["--schedule", plan.schedule]
    if plan.group_size is not None:
        arguments += ["--group-size", str(plan.group_size)]
    if any(0 in row for row in plan.layers):
        arguments.append("--allow-empty")
    if inputs.memory_limit_bytes is not None:
        arguments += ["--memory", f"{inputs.memory_limit_bytes // MEGABYTE}MB"]
    if inputs.communication is not None:
        arguments += ["--p2p-latency", f"{inputs.communication.message_ns}ns"]
    planned = simulate(inputs.network, plan, communication=inputs.communication)
    return NextPlan(command=" ".join(arguments), pipeline_ns=planned.makespan_ns)
