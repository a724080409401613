"""What a step keeps on the host or with other ranks, and how busy it keeps the links there."""

from dataclasses import dataclass

import numpy as np

from evenflow.simulate.pools import pools_of
from evenflow.simulate.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """What one rank moves to the host in a step, or to its keeper."""

    held_bytes: int
    """Most bytes of it that the host holds at a time, from the beginning of a copy there to the end of that back."""
    copies_ns: int
    """Time of all copies in one direction."""
    keeper: int | None = None
    """The rank in whose memory it waits; None: it waits on the host."""
    pool_bytes: int = 0
    """What the keeper sets aside for it."""

    @property
    def moves(self) -> bool:
        """Whether anything is moved."""
        return self.held_bytes + self.pool_bytes > 0


def host_uses(simulation: Simulation) -> tuple[HostUse, ...]:
    """Return what every rank moves to the host or its keeper; empty where nothing can be moved."""
    link = simulation.network.host_link
    if link is None:
        return ()
    timeline, costs = simulation.timeline, simulation.costs
    graph, starts_ns, ends_ns = timeline.graph, timeline.copy_start_ns, timeline.copy_end_ns
    if graph.copied is None or starts_ns is None or ends_ns is None or costs.offloaded_bytes is None:
        return ()
    schedule = timeline.schedule
    ranks = schedule.ranks[graph.copied[0]]
    sizes = costs.moved_bytes[graph.classes_of(range(schedule.num_actions, schedule.num_actions + len(ranks)))]
    uses, pools = [], pools_of(schedule, costs)
    for rank in range(schedule.num_ranks):
        own = ranks == rank
        copies_ns = int((ends_ns[0] - starts_ns[0])[own].sum())
        if rank in pools:
            keeper = link.keeper_of(rank)
            uses.append(HostUse(held_bytes=0, copies_ns=copies_ns, keeper=keeper, pool_bytes=pools[rank]))
            continue
        begins, ends, moved = starts_ns[0][own], ends_ns[1][own], sizes[own]
        times, changes = np.concatenate((begins, ends)), np.concatenate((moved, -moved))
        held = np.cumsum(changes[np.lexsort((changes, times))])  # what ends makes room for what begins then
        uses.append(HostUse(held_bytes=int(held.max(initial=0)), copies_ns=copies_ns))
    return tuple(uses)
