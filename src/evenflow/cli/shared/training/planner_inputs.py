"""What the planner is told of a predicted training: its layers, one time for all messages, a memory limit."""

from dataclasses import dataclass

from evenflow.cluster.topology import Topology
from evenflow.model import Communication, Network
from evenflow.predict.prediction import Prediction
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.units import MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInputs:
    """The network of one device, and what else the planner needs to plan the pipeline of a training."""

    network: Network
    communication: Communication | None
    """Cost of a message, here the longest of all; None without any."""
    memory_limit_bytes: int | None
    """Whole megabytes that a rank may hold beside the allocator's reserve; None where the limit is not known."""


def planner_inputs(prediction: Prediction, topology: Topology, *, memory_limit_bytes: int) -> PlannerInputs:
    """Return the inputs that stand for a prediction on devices of `memory_limit_bytes`, 0 where these are not known."""
    simulation = prediction.simulation
    messages = simulation.communication
    seen = min(  # the planner does not know the reserve, a share of what a rank holds
        peak / held.total_bytes for held, peak in zip(prediction.memory, simulation.peak_memory_bytes, strict=True)
    )
    limit = int(memory_limit_bytes * seen) // MEGABYTE * MEGABYTE
    return PlannerInputs(
        network=with_separate_mtp(prediction.training, topology, prediction.network),
        communication=None if messages is None else Communication(latency_ns=messages.message_ns),
        memory_limit_bytes=limit or None,
    )
