"""LayerBlocks: layers that no cut parts, each block as one layer.

    layers     a  m  a  m  a  m       m may not begin a stage
    blocks    (a  m)(a  m)(a  m)

A planner that takes the blocks for layers keeps to `Layer.cut_before` in all that it does: search, bounds and proof.
The costs of a block are the sums of its layers', so a plan of blocks costs what it costs in layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from evenflow.model.network import Layer, LayerRun, Mode, Network
from evenflow.model.recompute import NONE


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LayerBlocks:
    """A network with each block as one layer."""

    network: Network
    ends: NDArray[np.int64]
    """Layers before each block, and all of them: where stages may begin and end, shape [num_blocks + 1]."""

    def of_layers(self, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return numbers of layers in a row as numbers of blocks, in the same shape; None where they part a block."""
        borders = np.concatenate(([0], np.cumsum(counts.reshape(-1))))
        places = np.searchsorted(self.ends, borders)
        if places[-1] == len(self.ends) or (self.ends[places] != borders).any():
            return None
        return np.diff(places).reshape(counts.shape)

    def in_layers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return numbers of blocks in a row as numbers of layers, in the same shape; the inverse of `of_layers`."""
        borders = np.concatenate(([0], np.cumsum(counts.reshape(-1))))
        return np.diff(self.ends[borders]).reshape(counts.shape)


def blocks_of(network: Network) -> LayerBlocks | None:
    """Return the blocks of `network`; None where a stage may begin with every layer."""
    if network.cuts_anywhere:
        return None
    return _in_blocks(network, [layer.cut_before for layer in network.layers], cuts_anywhere=True)


def whole_blocks_of(network: Network) -> LayerBlocks | None:
    """Return `network` as frameworks of whole blocks see it; None where no layer continues a block."""
    if not network.continuing_layers:
        return None
    return _in_blocks(network, [not layer.continues_block for layer in network.layers], cuts_anywhere=False)


def _in_blocks(network: Network, begins: Sequence[bool], *, cuts_anywhere: bool) -> LayerBlocks:
    """Return blocks of which each begins with a layer of which `begins` says so, or with the first one."""
    members: list[list[Layer]] = []
    for layer, is_first in zip(network.layers, begins, strict=True):
        if is_first or not members:
            members.append([])
        members[-1].append(layer)
    joined = [_joined(layers) for layers in members]
    if cuts_anywhere:
        joined = [replace(layer, cut_before=True) for layer in joined]
    runs = tuple(LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(joined))
    ends = np.concatenate(([0], np.cumsum([len(layers) for layers in members], dtype=np.int64)))
    return LayerBlocks(network=replace(network, runs=runs), ends=ends)


def _joined(layers: Sequence[Layer]) -> Layer:
    """Return layers that stay together as one layer, which offers the recompute kinds that all of them do."""
    first = layers[0]
    if len(layers) == 1:
        return first
    kinds = [kind for kind in first.modes if all(kind in layer.modes for layer in layers)]
    return Layer(
        name=" + ".join(layer.name for layer in layers),
        forward_ns=sum(layer.forward_ns for layer in layers),
        parameter_bytes=sum(layer.parameter_bytes for layer in layers),
        modes={kind: reduce(_both, (layer.modes[kind] for layer in layers)) for kind in (*kinds, NONE)},
        stated_weight_ns=sum(layer.weight_ns for layer in layers),
        stated_until_weight_bytes=sum(layer.until_weight_bytes for layer in layers),
        cut_before=first.cut_before,
        stage_rules=frozenset(rule for layer in layers for rule in layer.stage_rules),
        is_mtp=first.is_mtp,
        is_encoder=first.is_encoder,
        boundary_bytes=layers[-1].boundary_bytes,
    )


def _both(first: Mode, second: Mode) -> Mode:
    """Return the mode of two layers behind one another, whose working memory is not needed at the same time."""
    return Mode(
        activation_bytes=first.activation_bytes + second.activation_bytes,
        offloaded_bytes=first.offloaded_bytes + second.offloaded_bytes,
        backward_ns=first.backward_ns + second.backward_ns,
        working_bytes=max(first.working_bytes, second.working_bytes),
    )
