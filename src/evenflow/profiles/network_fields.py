"""The network that a plan is of, and the cost of its messages: what simulating the plan again needs."""

from evenflow.profiles.layer_writer import layer_file_fields
from evenflow.simulate import Simulation
from evenflow.units import milliseconds


def network_fields(simulation: Simulation) -> dict[str, object]:
    """Return the fields that `evenflow.profiles.plan_file.parse_plan_file` reads back; messages cost null if nothing.

    Where every message of a step has its own time (`evenflow auto`), the slowest stands for all.
    """
    messages = simulation.communication
    return {
        "network": layer_file_fields(simulation.network),
        "communication": None
        if messages is None
        else {"latency_ms": milliseconds(messages.latency_ns), "transfer_ms": milliseconds(messages.transfer_ns)},
    }
