"""A lower bound on the step in any order of work, by a search of all cuts in two chunks per rank.

Of each rank no more is asked than that it could be done in time by itself, if the layers of all others took nothing but
their own times, without recomputation or waiting. For a rank with given layers in its two cells this is the largest of:

- *Work* between its head and its tail: the time before its first forward and after its last gradient; the second chunk
  alone likewise, between later and earlier moments. [Carlier, European Journal of Operational Research 11, 1982]
- *Bytes times time*: a cell's activation is held at least for a whole trip through the layers behind it. One multiplier
  weighs this against work.
- *Turns*: before the rank's first gradient it runs only forwards, and all that they make is held; after its last
  forward it runs only gradients of what is held then. Either a forward follows a gradient, so that a step is no shorter
  than the trip before the first gradient, all work but what memory lets run in these two times, and the trip after the
  last forward. Or all forwards come first, and all microbatches are held at once.
- *Whole microbatches*: the second cell holds some number of microbatches at once, all of which the first cell holds
  too. They must fit, with what recomputation that takes.

Recomputation is of parts of layers, by prices of a byte. A dynamic program over the ranks then finds the cut whose
busiest rank needs least: on a loop, where both chunks pass the ranks in the same order, and on a V, where they pass
them in opposite ones. The lesser of both is the bound; nothing is known of placements besides these.
"""

from math import ceil

from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network, looped, v_shaped
from evenflow.solve.bounds.any_order_bound import AnyPlan, any_order_bound_ns
from evenflow.solve.bounds.even_shares import lowered
from evenflow.solve.bounds.ramp_program import ramp_program_ns
from evenflow.solve.bounds.two_chunk_tables import two_chunk_tables

_MOST_ENTRIES = 20_000_000
"""Largest table of times of ranks, by where their cells begin and how many layers they have."""


def every_cut_bound_ns(plans: AnyPlan, *, up_to_ns: int) -> int:
    """Return a lower bound in ns on the step of any plan on a loop or a V, in any order of work; at most `up_to_ns`.

    It is never below `any_order_bound_ns`, and equal to it with one chunk per rank. With more than two chunks, or more
    layers than the search has memory for, it knows the ramps of each chunk, but not what memory makes of them.
    """
    quick = min(any_order_bound_ns(plans), up_to_ns)
    if plans.num_chunks == 1 or quick == up_to_ns:
        return quick
    layers, network = plans.network.num_layers, plans.network
    least_ns = min(
        layer.forward_ns + min(mode.backward_ns for mode in layer.modes.values()) for layer in network.layers
    )
    most = min(layers, up_to_ns // max(1, plans.num_units * least_ns))
    if plans.num_ranks * most < layers:
        return up_to_ns
    if plans.num_chunks == 2 and (layers + 1) ** 2 * (most + 1) ** 2 <= _MOST_ENTRIES:
        least = _searched(plans, up_to=float(up_to_ns), most=most)
    else:
        placements = [looped(num_ranks=plans.num_ranks, num_chunks=plans.num_chunks)]
        if plans.num_chunks == 2:
            placements.append(v_shaped(num_ranks=plans.num_ranks))
        least = min(ramp_program_ns(plans, placement) for placement in placements)
    return max(quick, min(up_to_ns, ceil(lowered(least))))  # steps are whole numbers of ns


def _searched(plans: AnyPlan, *, up_to: float, most: int) -> float:
    """Return the least time of the busiest rank with two chunks, over all cuts with at most `most` layers of a rank."""
    from evenflow.solve.bounds.two_chunk_kernel import least_on_a_loop, least_on_a_v  # loads numba

    tables = two_chunk_tables(plans)
    for search in (least_on_a_v, least_on_a_loop):
        up_to = search(tables, plans.num_ranks, plans.min_layers, up_to, most)
    return up_to


def load_cut_search() -> None:
    """Compile what the search of cuts needs, or read it from the cache, by searching something tiny."""
    mode = Mode(activation_bytes=1, backward_ns=2)
    layer = Layer(name="tiny", forward_ns=1, parameter_bytes=1, modes={NONE: mode})
    tiny = AnyPlan(
        network=Network(name="tiny", runs=(LayerRun(layer=layer, count=4),), head=EndBlock(), tail=EndBlock()),
        num_ranks=2, num_chunks=2, num_units=2, min_layers=1, memory_limit_bytes=8, message_ns=0, may_split=False,
    )  # fmt: skip
    every_cut_bound_ns(tiny, up_to_ns=60)
