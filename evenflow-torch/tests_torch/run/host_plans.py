"""Plan files with a link to the host; sizes and times of their layers count for nothing in a run."""

from typing import Any

from evenflow.model import HostLink, Layer, LayerRun, Mode, Network, Plan, with_offload
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.simulate import simulate


def host_plan(plan: Plan, link: HostLink) -> dict[str, Any]:
    """The fields of a plan file whose network has the link."""
    modes = {"none": Mode(activation_bytes=2, backward_ns=2), "full": Mode(activation_bytes=1, backward_ns=3)}
    layer = Layer(name="body", forward_ns=1, parameter_bytes=1, modes=modes)
    network = Network(name="small", runs=(LayerRun(layer=layer, count=plan.num_layers),))
    simulation = simulate(with_offload(network, link), plan)
    return simulation_fields(simulation, None) | network_fields(simulation)
