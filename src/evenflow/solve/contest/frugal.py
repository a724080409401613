"""Which ways of recomputing keep no more than another one, whatever the plan: where they do not fit, it does not.

Where all layers are under one kind, a plan of another kind that keeps no more of any layer holds no more on any rank at
any moment. So one proof that nothing fits under the most frugal kind is one for all kinds that keep more.
"""

import numpy as np

from evenflow.solve.problem import Problem


def only_kind(problem: Problem) -> str | None:
    """Return the kind that all layers of all plans are under; None where they may differ."""
    rule = problem.request.cell_rule
    return rule.kinds[0] if len(rule.kinds) == 1 and rule.full is None and rule.kinds[0] in problem.kinds else None


def kept_bytes(problem: Problem) -> float:
    """Return what all layers together keep of a microbatch where they are under one kind, else infinity."""
    kind = only_kind(problem)
    return float("inf") if kind is None else float(problem.sums.activation_bytes[problem.kinds.index(kind), -1])


def keeps_no_more(problem: Problem, other: Problem) -> bool:
    """Return whether plans of the one kind of `problem` need no more memory than the same of the one kind of `other`.

    Both are of the same request but for the rule of their cells. What moves to the host, and segments, say nothing.

    A kind that keeps less needs more working memory for what it computes again. Peaks count that of one layer beside
    all that is kept, so it is made up for where that of no layer is more than what is kept less of every layer. At the
    peak some layer of the rank is kept: with the working memory of the same layer, it would not be the peak otherwise.
    """
    own_kind, other_kind = only_kind(problem), only_kind(other)
    if own_kind is None or other_kind is None or own_kind == other_kind or problem.pooled:
        return False
    sums = problem.sums
    own, more = problem.kinds.index(own_kind), problem.kinds.index(other_kind)
    moved = sums.offloaded_bytes
    if own in sums.segments or more in sums.segments or (moved is not None and moved[[own, more]].any()):
        return False
    kept_less = np.diff(sums.activation_bytes[more] - sums.activation_bytes[own])
    works_more = sums.working_bytes[own] - sums.working_bytes[more]
    return bool(kept_less.min() >= max(0, works_more.max()) and kept_less.any())
