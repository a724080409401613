"""A lower bound on the step under one order of work, in milliseconds: what paths through it take, however it is cut.

A step takes as long as the longest path through its order, and so at least as long as any mixture of paths; and in a
mixture every layer costs what it does on some stage. What is looked for is the mixture in which layers cost most where
they cost least: warm-up, turn at the last stage and drain, of every rank in its share. Of recomputation, what every
layer does whatever its kind counts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Graph, Integers
from evenflow.solve.bounds.even_shares import lowered
from evenflow.solve.bounds.layer_table import LayerTable

_AFTER = NUM_OPS
"""The operation behind the last action of a rank."""


class After(NamedTuple):
    """What a rank does behind its last action for each of its layers, for the head and for the tail, in ns."""

    layer_ns: float = 0.0
    head_ns: float = 0.0
    tail_ns: float = 0.0


NOTHING_AFTER = After()


def path_bound_ns(
    table: LayerTable,
    graph: Graph,
    *,
    min_layers: int = 1,
    messages_ns: Integers | None = None,
    sends: bool = False,
    after: After = NOTHING_AFTER,
) -> float:
    """Return a lower bound on the step of all cuts and all recomputation under one order; infinite if no cut exists.

    `messages_ns` is the time of what each stage sends on, forward and backward, shape [2, num_stages]; None: no time.
    With `sends` the sender waits for them. `after` counts on the rank where a path ends.
    """
    from evenflow.solve.bounds.path_kernel import PathOrder, mixture_bound  # loads numba

    schedule, numbers = graph.schedule, table.counts[:, -1].copy()
    if numbers.sum() < min_layers * schedule.num_stages:
        return float("inf")
    fixed, arrivals = np.zeros((2, schedule.num_stages, NUM_OPS + 1))
    fixed[0] += _by_op(table.ends[0], after.head_ns)
    fixed[-1] += _by_op(table.ends[1], after.tail_ns)
    if messages_ns is not None:
        forward, backward = messages_ns
        for op, times, receivers, senders in (
            (Op.F, forward, np.s_[1:], np.s_[:-1]),
            (Op.B, backward, np.s_[:-1], np.s_[1:]),
            (Op.I, backward, np.s_[:-1], np.s_[1:]),
        ):
            if sends:
                fixed[:, op] += times
            else:
                arrivals[receivers, op] = times[senders]
    order = PathOrder(
        rank_predecessors=graph.rank_predecessors,
        dependencies=graph.dependencies,
        classes=graph.classes + graph.classes // NUM_OPS,  # one operation more for each stage
        ranks=schedule.ranks[graph.sequence],
        lasts=graph.rank_lasts,
        stage_ranks=np.array(schedule.stage_ranks),
        arrivals=arrivals.ravel(),
        fixed=fixed,
        times=np.array([_by_op(times, after.layer_ns) for times in _with_recomputation(table)]),
        numbers=numbers,
        least=float(min_layers),
    )
    return lowered(mixture_bound(order))


def _with_recomputation(table: LayerTable) -> Any:
    """Return the times of the layers, gradients with the least recomputation of any kind; [num_types, 3]."""
    times = table.times.copy()
    least = table.extra.min(axis=0)
    times[:, 1] += np.where(np.isinf(least), 0.0, least)
    return times


def _by_op(times: NDArray[np.float64], after_ns: float) -> NDArray[np.float64]:
    """Return the time of each operation from those of a forward, a gradient, a weight gradient and what follows."""
    forward, gradient, weight = times[:3]
    by_op = np.zeros(NUM_OPS + 1)
    by_op[[Op.F, Op.B, Op.I, Op.W, _AFTER]] = forward, gradient + weight, gradient, weight, after_ns
    return by_op
