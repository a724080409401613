"""A lower bound on the step of a pipeline, in microseconds: what each rank can hold and do in a time.

For a time T every rank has a largest content with which it fits in memory and is done by T; where these do not add up
to the network, no plan ends by T. With one chunk per rank the contents are cuts, taken from the first rank on
(`capacity_kernel`), and the paths through a rank's order are known but for what other ranks recompute. With
several chunks they are numbers of layers, wherever these are in the network. Recomputation is taken as a mixture of
kinds, and which layers share a cell is left open.
"""

from math import inf

from evenflow.model import Request, Sizes
from evenflow.solve.bounds.even_shares import lowered
from evenflow.solve.bounds.layer_table import LayerTable, layer_table
from evenflow.solve.bounds.order_facts import order_facts


def capacity_table(request: Request, schedule: str) -> LayerTable:
    """Return the network, memory limit and cell rule of a request as the arrays that `capacity_bound_ns` reads.

    It is the same for all families that split backwards, and all that do not; and for all numbers of chunks above one.
    """
    splits = order_facts(schedule, request.sizes).splits_backward
    return layer_table(request, splits_backward=splits, most_types=2 if request.sizes.num_chunks > 1 else None)


def capacity_bound_ns(
    table: LayerTable,
    schedule: str,
    sizes: Sizes,
    *,
    min_layers: int = 1,
    message_ns: float = 0,
    sent_ns: float = 0,
    known_ns: float = 0,
    aim_ns: float = inf,
) -> float:
    """Return a lower bound on the step of all plans under a schedule family; infinite if none fits.

    It holds for every cut, recomputation and group size. Each message between neighbouring ranks takes `message_ns` at
    least; `sent_ns` is either 0 or as much, where the sender waits for it. No plan is shorter than `known_ns`; above
    `aim_ns` nothing need be known but whether any plan fits.
    """
    from evenflow.solve.bounds.capacity_kernel import least_time  # loads numba
    from evenflow.solve.bounds.rank_time_kernel import PipelineFacts

    facts = order_facts(schedule, sizes)
    pipeline = PipelineFacts(
        num_units=sizes.num_microbatches,
        min_layers=min_layers,
        tail_rank=facts.tail_rank,
        message_ns=float(message_ns),
        sent_ns=float(sent_ns),
        live=facts.live,
        turns=facts.turns,
    )
    return lowered(least_time(table, pipeline, float(known_ns), float(aim_ns)))
