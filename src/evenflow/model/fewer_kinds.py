"""A network without some of its recompute kinds."""

from collections.abc import Collection
from dataclasses import replace

from evenflow.model.network import LayerRun, Network
from evenflow.model.recompute import FULL, NONE


def without_offload(network: Network) -> Network:
    """Return the network without the recompute kinds that move anything to the host."""
    moves = {kind for run in network.runs for kind, mode in run.layer.modes.items() if mode.offloaded_bytes}
    return replace(network, runs=_runs_without(network, moves), host_link=None)


def without_recompute(network: Network) -> Network:
    """Return the network whose layers keep everything: without recompute kinds and segments."""
    others = {kind for run in network.runs for kind in run.layer.modes if kind != NONE}
    return replace(network, runs=_runs_without(network, others), host_link=None, segments={})


def without_idle_kinds(network: Network, *, used: Collection[str] = ()) -> Network:
    """Return the network without kinds with which no layer keeps less than with `none`, but for `full` and `used`."""
    layers = [run.layer for run in network.runs]
    idle = [
        kind
        for kind in network.kinds
        if kind not in (FULL, NONE, *used)
        and all(layer.modes[kind].activation_bytes >= layer.modes[NONE].activation_bytes for layer in layers)
        and all(layer.modes[kind].working_bytes >= layer.modes[NONE].working_bytes for layer in layers)
    ]
    return replace(network, runs=_runs_without(network, idle))


def _runs_without(network: Network, kinds: Collection[str]) -> tuple[LayerRun, ...]:
    return tuple(
        LayerRun(
            layer=replace(run.layer, modes={kind: mode for kind, mode in run.layer.modes.items() if kind not in kinds}),
            count=run.count,
        )
        for run in network.runs
    )
