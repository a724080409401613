"""One share of all modules of a cell that move their inputs to the host, instead of counts of layers for each cell.

Megatron-LM's ``--activation-offload-fraction``: what a module of a layer keeps is a group; of the n groups of a cell,
in the order of the forward, the last int(n (1 - share)) stay on the device. So some first layers move all that they
can, one layer may move some of it, and the others move nothing. [Megatron-LM,
`PipelineOffloadManager.post_warmup_callback`]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evenflow.model.network import Layer, Network
from evenflow.model.plan import Plan, cells
from evenflow.model.recompute import NONE, OFFLOAD, SET_JOINT
from evenflow.model.stage_ranks import Stages, stage_cells


def num_moved(num_groups: int, share: float) -> int:
    """Return how many groups of a cell move, in the floating-point arithmetic of Megatron-LM.

    >>> num_moved(5, 0.5), num_moved(10, 0.9)
    (3, 10)
    """
    return num_groups - int(num_groups * (1 - share))


def shares_between(group_counts: Sequence[int]) -> tuple[float, ...]:
    """Return a share for each way in which cells with these numbers of groups can move some, but not all of them.

    >>> shares_between([2, 4])
    (0.125, 0.375, 0.625, 0.875)
    """
    steps = {moved / count for count in group_counts for moved in range(1, count)}
    shares = {round((low + high) / 2, 4) for low, high in pairwise(sorted({0.0, *steps, 1.0}))}
    return tuple(sorted(share for share in shares if 0 < share < 1))


def chain_of(kind: str) -> tuple[str, ...]:
    """Return the kinds from that which moves nothing to `kind`, each with one module more, of a set of modules.

    >>> chain_of("layernorm+offload_core_attn+offload_moe_act")
    ('layernorm', 'layernorm+offload_core_attn', 'layernorm+offload_core_attn+offload_moe_act')
    """
    modules = kind.split(SET_JOINT)
    again = [module for module in modules if not module.startswith(f"{OFFLOAD}_")]
    moved = modules[len(again) :]
    return tuple(SET_JOINT.join((*again, *moved[:count])) or NONE for count in range(len(moved) + 1))


def with_chain(network: Network, chain: Sequence[str]) -> Network | None:
    """Return the network with all kinds of `chain`, from one that moves nothing to one that moves the most.

    None where it lacks the last, or does not know its modules apart.
    """
    missing = [kind for kind in chain if kind not in network.kinds]
    if not missing:
        return network
    if chain[-1] in missing or any(
        len(run.layer.modes[chain[-1]].moved_parts) != len(chain) - 1 for run in network.runs
    ):
        return None
    runs = tuple(replace(run, layer=_with_parts(run.layer, chain, missing)) for run in network.runs)
    return replace(network, runs=runs)


def _with_parts(layer: Layer, chain: Sequence[str], missing: Sequence[str]) -> Layer:
    """Return the layer with the kinds of `chain` that it lacks: what they move less stays on the device."""
    most = layer.modes[chain[-1]]
    modes = dict(layer.modes)
    for kind in missing:
        stays = sum(most.moved_parts[chain.index(kind) :])
        modes[kind] = replace(
            most,
            activation_bytes=most.activation_bytes + stays,
            offloaded_bytes=most.offloaded_bytes - stays,
            moved_parts=most.moved_parts[: chain.index(kind)],
        )
    return replace(layer, modes=modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedGroups:
    """The groups of every layer of a network that may move."""

    chain: tuple[str, ...]
    """Recompute kinds: that which moves nothing, each with one module more, and that which moves all."""
    of_layers: tuple[tuple[int, ...], ...]
    """For each layer, the places in `chain` of the kinds that add a group of it."""

    @classmethod
    def of(cls, network: Network, chain: Sequence[str]) -> "MovedGroups | None":
        """Return the groups of the layers of `network`; None where it lacks a kind of `chain`."""
        if not set(chain) <= set(network.kinds):
            return None
        of_run = [(run.count, _groups(run.layer, chain)) for run in network.runs]
        return cls(chain=tuple(chain), of_layers=tuple(groups for count, groups in of_run for _layer in range(count)))

    def num_groups(self, start: int, end: int) -> int:
        """Return the groups of the layers [start, end)."""
        return sum(len(groups) for groups in self.of_layers[start:end])

    def kinds(self, start: int, end: int, share: float) -> list[str]:
        """Return the kind of each layer of a cell that holds the layers [start, end)."""
        left = num_moved(self.num_groups(start, end), share)
        kinds = []
        for groups in self.of_layers[start:end]:
            moved = min(left, len(groups))
            place = groups[moved - 1] if moved else 0
            kinds.append(self.chain[-1] if left and moved == len(groups) else self.chain[place])
            left -= moved
        return kinds


def _groups(layer: Layer, chain: Sequence[str]) -> tuple[int, ...]:
    moved = [layer.modes[kind].offloaded_bytes for kind in chain]
    return tuple(place for place in range(1, len(chain)) if moved[place] > moved[place - 1])


def with_moved_share(plan: Plan, groups: MovedGroups, table: Stages) -> Plan:
    """Return the plan with the counts of every cell that its `moved_share` makes; `table` has the stage of every cell.

    The plan and `groups` are of one network.
    """
    assert plan.moved_share is not None
    counts = {kind: [[0] * plan.num_ranks for _row in plan.layers] for kind in groups.chain}
    end = 0
    for chunk, rank in stage_cells(table):
        start, end = end, end + plan.layers[chunk][rank]
        for kind in groups.kinds(start, end, plan.moved_share.share):
            counts[kind][chunk][rank] += 1
    counts.pop(NONE, None)
    used = {kind: cells(rows) for kind, rows in counts.items() if any(map(any, rows))}
    return replace(plan, recompute=used)
