"""The one cost model: what a plan's stages cost, linear in the layer counts per recompute kind.

Solver, simulator, pictures and exports all take their numbers from the prefix sums here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.model import Network, Plan
from evenflow.schedule.action import NUM_OPS, Op

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerSums:
    """Prefix sums over the body layers: a run of layers [i, j) costs ``sums[j] - sums[i]``."""

    kinds: tuple[str, ...]
    """Recompute kinds in cell order, ``none`` last."""
    forward_ns: Integers
    """Shape [num_layers + 1]."""
    parameter_bytes: Integers
    """Shape [num_layers + 1]."""
    backward_ns: Integers
    """Recomputation included, shape [num_kinds, num_layers + 1]."""
    activation_bytes: Integers
    """Shape [num_kinds, num_layers + 1]."""


def layer_sums(network: Network) -> LayerSums:
    """The prefix sums of `network`'s layers."""
    layers, kinds = network.layers, network.kinds

    def prefix(values: list[int]) -> Integers:
        return np.concatenate(([0], np.cumsum(np.array(values, dtype=np.int64))))

    return LayerSums(
        kinds=kinds,
        forward_ns=prefix([layer.forward_ns for layer in layers]),
        parameter_bytes=prefix([layer.parameter_bytes for layer in layers]),
        backward_ns=np.stack([prefix([layer.modes[kind].backward_ns for layer in layers]) for kind in kinds]),
        activation_bytes=np.stack([prefix([layer.modes[kind].activation_bytes for layer in layers]) for kind in kinds]),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class StageCosts:
    """What every stage of a plan costs, per microbatch (part)."""

    num_ranks: int
    forward_ns: Integers
    """Shape [num_stages]."""
    backward_ns: Integers
    """Recomputation included, shape [num_stages]."""
    recompute_ns: Integers
    """The part of the backward that recomputes, shape [num_stages]."""
    activation_bytes: Integers
    """Live from a stage's forward to the end of its backward, shape [num_stages]."""
    static_bytes: Integers
    """Parameters, optimizer state and constant memory, shape [num_ranks]."""

    @cached_property
    def durations(self) -> Integers:
        """Indexed by the classes of `Graph`, shape [NUM_OPS * num_stages]."""
        table = np.empty((len(self.forward_ns), NUM_OPS), dtype=np.int64)
        table[:, Op.F] = self.forward_ns
        table[:, Op.B] = self.backward_ns
        return table.reshape(-1)


def stage_costs(network: Network, plan: Plan) -> StageCosts:
    """The costs of `plan`'s stages; raises InputError when the plan does not fit the network."""
    network = network.split_sequence(plan.sequence_splits)
    if plan.num_layers != network.num_layers:
        raise InputError(
            value=plan.num_layers,
            rule=f"the layers of a plan add up to the {network.num_layers} of the network",
            place=f"plan for {network.name}, layers",
        )
    for kind, table in plan.recompute.items():
        if kind not in network.kinds and any(any(row) for row in table):
            raise InputError(
                value=kind,
                rule=f"the network offers the recompute kinds {', '.join(network.kinds)}",
                place=f"plan for {network.name}, recompute",
                remedy="full recompute would drop the keys and values that later parts of a sequence need"
                if plan.sequence_splits > 1 and kind == "full"
                else "give the memory of that kind in the layer file",
            )
    sums = layer_sums(network)
    counts = np.array(
        [
            [[plan.count(kind, chunk, rank) for kind in sums.kinds] for rank in range(plan.num_ranks)]
            for chunk in range(plan.num_chunks)
        ],
        dtype=np.int64,
    ).reshape(plan.num_chunks * plan.num_ranks, len(sums.kinds))
    return costs_of_counts(network, sums, counts, plan.num_ranks)


def costs_of_counts(network: Network, sums: LayerSums, counts: Integers, num_ranks: int) -> StageCosts:
    """Costs from counts [num_stages, num_kinds] (kinds in cell order); `network` gives head, tail and constant."""
    bounds = np.concatenate(([0], np.cumsum(counts.reshape(-1))))
    num_stages, num_kinds = counts.shape
    starts, ends = bounds[:-1].reshape(num_stages, num_kinds), bounds[1:].reshape(num_stages, num_kinds)
    first, last = starts[:, 0], ends[:, -1]
    forward = sums.forward_ns[last] - sums.forward_ns[first]
    parameters = sums.parameter_bytes[last] - sums.parameter_bytes[first]
    each = np.arange(num_kinds)
    backward = (sums.backward_ns[each, ends] - sums.backward_ns[each, starts]).sum(axis=1)
    plain = sums.backward_ns[-1, last] - sums.backward_ns[-1, first]
    activation = (sums.activation_bytes[each, ends] - sums.activation_bytes[each, starts]).sum(axis=1)
    recompute = backward - plain
    for stage, block in ((0, network.head), (num_stages - 1, network.tail)):
        forward[stage] += block.forward_ns
        backward[stage] += block.backward_ns
        activation[stage] += block.activation_bytes
        parameters[stage] += block.parameter_bytes
    static = parameters.reshape(-1, num_ranks).sum(axis=0) + network.constant_bytes
    return StageCosts(
        num_ranks=num_ranks,
        forward_ns=forward,
        backward_ns=backward,
        recompute_ns=recompute,
        activation_bytes=activation,
        static_bytes=static,
    )
