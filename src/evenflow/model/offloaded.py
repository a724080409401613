"""A network whose layers may also keep on the host what they would keep on the device."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.host_link import HostLink
from evenflow.model.network import Layer, LayerRun, Mode, Network
from evenflow.model.network_source import NetworkSource, as_network
from evenflow.model.recompute import NONE, OFFLOAD


def with_offload(network: NetworkSource, link: HostLink) -> Network:
    """Return the network whose layers may move all that they keep under a recompute kind over `link`, for every kind.

    The kinds are ``offload`` for `none`, and ``full+offload`` for `full`, whose input moves. Layers that keep nothing
    have them too. The network may be the path of its layer file.

    Raises:
        InputError: a network that has one of these kinds already.
    """
    network = as_network(network)
    taken = next((kind for kind in network.kinds if moved_kind(kind) in network.kinds), None)
    if taken is not None:
        raise InputError(
            value=moved_kind(taken),
            rule=_("must not be among the recompute kinds yet"),
            place=_("recompute kinds of {name}", name=network.name),
        )
    moving = [kind for kind in network.kinds if kind not in network.segments]
    runs = tuple(LayerRun(layer=_moving(run.layer, moving), count=run.count) for run in network.runs)
    return replace(network, runs=runs, host_link=link)


def _moving(layer: Layer, kinds: Collection[str]) -> Layer:
    moved: Mapping[str, Mode] = {
        moved_kind(kind): replace(mode, activation_bytes=0, offloaded_bytes=mode.activation_bytes)
        for kind, mode in layer.modes.items()
        if not mode.offloaded_bytes and kind in kinds
    }
    return replace(layer, modes={**layer.modes, **moved})


def moved_kind(kind: str) -> str:
    """Return the kind that moves to the host what layers keep under `kind`.

    >>> moved_kind("none"), moved_kind("select")
    ('offload', 'select+offload')
    """
    return OFFLOAD if kind == NONE else f"{kind}+{OFFLOAD}"
