"""What a step keeps on the host, and how busy it keeps the links to it."""

from dataclasses import dataclass

import numpy as np

from evenflow.simulate.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """What one rank moves to the host in a step."""

    held_bytes: int
    """Most bytes of it that the host holds at a time, from the beginning of a copy there to the end of that back."""
    copies_ns: int
    """Time of all copies in one direction."""


def host_uses(simulation: Simulation) -> tuple[HostUse, ...]:
    """Return what every rank moves to the host; empty where nothing can be moved."""
    if simulation.network.host_link is None:
        return ()
    timeline, costs = simulation.timeline, simulation.costs
    graph, starts_ns, ends_ns = timeline.graph, timeline.copy_start_ns, timeline.copy_end_ns
    if graph.copied is None or starts_ns is None or ends_ns is None or costs.offloaded_bytes is None:
        return ()
    schedule = timeline.schedule
    ranks = schedule.ranks[graph.copied[0]]
    sizes = costs.moved_bytes[graph.classes_of(range(schedule.num_actions, schedule.num_actions + len(ranks)))]
    uses = []
    for rank in range(schedule.num_ranks):
        own = ranks == rank
        begins, ends, moved = starts_ns[0][own], ends_ns[1][own], sizes[own]
        times, changes = np.concatenate((begins, ends)), np.concatenate((moved, -moved))
        held = np.cumsum(changes[np.lexsort((changes, times))])  # what ends makes room for what begins then
        uses.append(HostUse(held_bytes=int(held.max(initial=0)), copies_ns=int((ends_ns[0] - starts_ns[0])[own].sum())))
    return tuple(uses)
