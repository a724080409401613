"""With one chunk per rank: the plan of which the rank that takes longest by itself takes least, and a bound.

A rank alone takes the time of its work beside its ramps. The least time T in which every rank can be done is found by
bisection: the cut graph of T has a path if and only if there is a plan of which no rank alone takes longer. No step is
shorter than T. The plan takes longer, but not by much, as with one chunk ranks hardly wait for each other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts.cut_graph import CutGraphs
from evenflow.solve.problem import Problem

_EXACT = 1e-4
"""Fraction of the time to which it is found."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evened:
    """What was found."""

    bound_ns: int
    """Lower bound on the step of every plan."""
    counts: Integers | None
    """The plan, shape [num_cells, num_kinds]; None where none was found in time."""


def evened_plan(problem: Problem, *, lower_ns: int, upper_ns: int, keep_going: Callable[[], bool]) -> Evened:
    """Return the plan and its bound, where the step is known to take from `lower_ns` to `upper_ns`.

    The problem must have cut graphs and one chunk per rank.
    """
    low_ns, high_ns, counts = lower_ns, upper_ns, None
    while high_ns - low_ns > _EXACT * high_ns and keep_going():
        target_ns = (low_ns + high_ns) // 2
        options = all_options(problem, target_ns)
        if options is None:
            low_ns = target_ns + 1
            continue
        graphs = CutGraphs(problem, options, target_ns)
        graph = graphs.graph(problem.num_layers)
        if graph is None:  # of too many arcs to tell
            break
        # Of all paths, the one with the least work has the least recomputation.
        path = graph.shortest(np.ones(graph.classes.shape), limit=np.inf) if graph.is_connected else None
        if path is None:
            low_ns = target_ns + 1
        else:
            high_ns, counts = target_ns, graphs.counts(graph, path.arcs)
    return Evened(bound_ns=low_ns, counts=counts)
