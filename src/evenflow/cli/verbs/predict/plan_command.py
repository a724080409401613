"""The command that plans the pipeline of a prediction, from the layer file that was written of it."""

import shlex
from dataclasses import replace
from pathlib import Path

from evenflow.cli.shared.training.planner_inputs import PlannerInputs
from evenflow.export.results.prediction_fields import NextPlan
from evenflow.model import Communication, Plan, whole_blocks_of
from evenflow.predict.prediction import Prediction
from evenflow.simulate import simulate
from evenflow.targets.further_tokens import with_mtp_last
from evenflow.units import MEGABYTE, format_bandwidth


def next_plan(prediction: Prediction, inputs: PlannerInputs, layer_file: Path) -> NextPlan:
    """Return ``evenflow plan`` with the sizes, messages and memory of the prediction.

    The limit of `inputs` leaves the reserve out. The planner has one message time for all stages, here the longest, and
    sends under computation: `pipeline_ns` is what the predicted plan takes there.
    """
    blocks = whole_blocks_of(inputs.network)
    network = inputs.network if blocks is None else blocks.network
    plan = with_mtp_last(prediction.simulation.plan, network.mtp_layers)
    plan = _with_encoder_first(plan, network.num_layers - plan.num_layers)
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
    if inputs.memory_limit_bytes is not None:
        arguments += ["--memory", f"{inputs.memory_limit_bytes // MEGABYTE}MB"]
    if inputs.communication is not None:
        arguments += _message_arguments(inputs.communication, inputs.message_bytes)
    planned = simulate(network, plan, communication=inputs.communication)
    return NextPlan(command=" ".join(arguments), pipeline_ns=planned.makespan_ns)


def _with_encoder_first(plan: Plan, more_layers: int) -> Plan:
    """Return the plan with the layers of an encoder, if they are layers at all, in its first stage."""
    first, *others = plan.layers
    return replace(plan, layers=((first[0] + more_layers, *first[1:]), *others))


def _message_arguments(communication: Communication, size_bytes: int) -> list[str]:
    """Return the options for messages: all that a message takes, or what it takes by its size."""
    if communication.bytes_per_s is None:
        return ["--p2p-latency", f"{communication.message_ns}ns"]
    rate = format_bandwidth(communication.bytes_per_s)
    latency = f"{communication.latency_ns}ns"
    return ["--p2p-latency", latency, "--p2p-bandwidth", rate, "--boundary", f"{size_bytes}B"]
