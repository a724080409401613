"""A lower bound on the step of a pipeline, in microseconds: what each rank can hold and do in a time.

For a time T every rank has a largest content with which it fits in memory and is done by T; where these do not add up
to the network, no plan ends by T. With one chunk per rank the contents are cuts, taken from the first rank on
(`load_kernel._cuts_end_by`), and the paths through a rank's order are known but for what other ranks recompute. With
several chunks they are numbers of layers, wherever these are in the network. Recomputation is taken as a mixture of
kinds, and which layers share a cell is left open.
"""

from evenflow.model import Request
from evenflow.solve.load.layer_table import LayerTable, layer_table
from evenflow.solve.load.load_kernel import Pipeline, least_time
from evenflow.solve.load.order_facts import OrderFacts, order_facts

_SAFE = 1 - 1e-9
"""Factor by which a bound is lowered for rounding in floating point."""


def table_of(request: Request, facts: OrderFacts) -> LayerTable:
    """Return what `load_bound_ns` reads of a request's network, memory limit and cell rule; sizes do not matter."""
    several = request.sizes.num_chunks > 1
    return layer_table(request, splits_backward=facts.splits_backward, most_types=2 if several else None)


def load_bound_ns(request: Request, schedule: str, *, table: LayerTable | None = None) -> float:
    """Return a lower bound on the step of all plans of `request` under a schedule family; infinite if none fits.

    It holds for every cut, recomputation and group size. `table` is that of `table_of`, made once for many requests.
    """
    facts = order_facts(schedule, request.sizes)
    pipeline = Pipeline(
        num_units=request.sizes.num_microbatches,
        min_layers=request.min_layers,
        tail_rank=facts.tail_rank,
        message_ns=float(request.message_ns),
        live=facts.live,
        turns=facts.turns,
    )
    return float(least_time(table_of(request, facts) if table is None else table, pipeline)) * _SAFE
