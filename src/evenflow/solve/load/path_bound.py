"""A lower bound on the step under one order of work, in milliseconds: what paths through it take, however it is cut.

A step takes as long as the longest path through its order, and so at least as long as any mixture of paths; and in a
mixture every layer costs what it does on some stage. What is looked for is the mixture in which layers cost most where
they cost least: warm-up, turn at the last stage and drain, of every rank in its share. Recomputation is left out.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Graph, Integers
from evenflow.solve.load.layer_table import LayerTable

_SAFE = 1 - 1e-9
"""Factor by which a bound is lowered for rounding in floating point."""


def path_bound_ns(
    table: LayerTable, graph: Graph, *, min_layers: int = 1, messages_ns: Integers | None = None, sends: bool = False
) -> float:
    """Return a lower bound on the step of all cuts and all recomputation under one order; infinite if no cut exists.

    `messages_ns` is the time of what each stage sends on, forward and backward, shape [2, num_stages]; None: no time.
    With `sends` the sender waits for them.
    """
    from evenflow.solve.load.path_kernel import Order, mixture_bound  # loads numba

    schedule, numbers = graph.schedule, table.counts[:, -1].copy()
    if numbers.sum() < min_layers * schedule.num_stages:
        return float("inf")
    fixed, arrivals = np.zeros((schedule.num_stages, NUM_OPS)), np.zeros((schedule.num_stages, NUM_OPS))
    fixed[0] += _by_op(table.ends[0])
    fixed[-1] += _by_op(table.ends[1])
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
    order = Order(
        rank_predecessors=graph.rank_predecessors,
        dependencies=graph.dependencies,
        classes=graph.classes,
        ranks=schedule.ranks[graph.sequence],
        arrivals=arrivals.ravel(),
        fixed=fixed,
        times=np.array([_by_op(times) for times in table.times]),
        numbers=numbers,
        least=float(min_layers),
    )
    return float(mixture_bound(order, schedule.num_ranks)) * _SAFE


def _by_op(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each action takes of a forward, a gradient and a weight gradient."""
    forward, gradient, weight = times[:3]
    found = np.zeros(NUM_OPS)
    found[[Op.F, Op.B, Op.I, Op.W]] = forward, gradient + weight, gradient, weight
    return found
