"""Shorter plans whose cuts are near those of a plan: a search over cuts in a small part of the cut graphs.

A move of one layer changes every cell between where it is taken and where it is given, so a search by such moves rests
at plans that are not the best where layers are of many kinds. Within two or three layers of all cuts of such a plan
there are billions of others, which a search over cuts decides in about a second.
[local branching: Fischetti & Lodi, Mathematical Programming 98, 2003]
"""

from collections.abc import Callable

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.columns.rank_columns import Borders, all_options
from evenflow.solve.cuts.cut_graph import CutGraphs, middles_outwards
from evenflow.solve.cuts.cut_search import CutSearch
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.problem import Problem


def nearby_plan(
    problem: Problem,
    counts: Integers,
    paths: CriticalPaths,
    *,
    target_ns: int,
    width: int,
    keep_going: Callable[[], bool],
) -> Integers | None:
    """Return a plan of at most `target_ns` whose cuts are at most `width` layers from those of `counts`.

    Both have the shape [num_cells, num_kinds]. None where there is none, or none was found while `keep_going` said so.
    Messages count with the shortest time that they may take. The problem must have cut graphs.
    """
    cuts = np.cumsum([0, *counts.sum(axis=1)])
    borders = Borders(low=np.maximum(cuts - width, 0), high=np.minimum(cuts + width, problem.num_layers))
    options = all_options(problem, target_ns, borders=borders)
    if options is None:
        return None
    middle = problem.num_ranks if problem.num_chunks > 1 else -1
    middles = [place for place in middles_outwards(problem) if borders.low[middle] <= place <= borders.high[middle]]
    graphs = CutGraphs(problem, options, target_ns, middles=middles, borders=borders)
    search = CutSearch(graphs, paths, target_ns=target_ns, middles=middles)
    search.run(keep_going, lambda _bound_ns: None)
    return search.found
