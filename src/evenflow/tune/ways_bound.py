"""The least of what bounds prove of each way to recompute, where a framework has several.

A bound over any mixture of kinds lets the first rank recompute what it must and the others nothing. A framework that
has one kind for all layers, or one number of layers under `full` for all cells, makes the others recompute too.
"""

from collections.abc import Callable, Iterable
from math import inf

from evenflow.model import FULL, CellRule
from evenflow.solve.recompute_ways import RecomputeWay

_ENOUGH = 1e-6
"""Share by which a bound over all ways may be below one that nothing can undercut, and still be that."""
RuleBound = Callable[[CellRule], float]


def bound_of_ways_ns(
    ways: Iterable[RecomputeWay], rule_ns: RuleBound, *, known_ns: float, aim_ns: float, most: int
) -> float:
    """Return a lower bound on the plans of all `ways`, of which none is below `known_ns`.

    `rule_ns` bounds the plans of a rule. Numbers of layers of a cell under `full`, up to the `most` that a cell can
    have, are bounded one by one, until all larger ones are bounded by as much, or by `aim_ns`, above which nothing need
    be known.
    """
    ways = tuple(ways)
    least_ns = inf
    for rule in _without_number(ways):
        least_ns = min(least_ns, rule_ns(rule))
        if least_ns <= known_ns * (1 + _ENOUGH):
            return max(known_ns, least_ns)
    if any(way.count is not None for way in ways):
        enough_ns = known_ns * (1 + _ENOUGH)
        numbers_ns = _least_of_numbers_ns(rule_ns, most=most, enough_ns=enough_ns, aim_ns=min(least_ns, aim_ns))
        least_ns = min(least_ns, numbers_ns)
    return max(known_ns, least_ns)


def _without_number(ways: Iterable[RecomputeWay]) -> list[CellRule]:
    """Return the rules of ways without a number, and without those whose plans another rule has too."""
    rules = [way.rule for way in ways if way.count is None]
    mixed = [set(rule.kinds) for rule in rules if not rule.alike and not rule.apart]
    return [rule for rule in rules if not rule.kinds or not any(set(rule.kinds) < kinds for kinds in mixed)]


def _least_of_numbers_ns(rule_ns: RuleBound, *, most: int, enough_ns: float, aim_ns: float) -> float:
    """Return the least bound of all numbers of layers under `full`."""
    least_ns, low = inf, 1
    while low <= most:
        # Cells that recompute as many layers or more end no earlier the more these are.
        if low > 1 and rule_ns(_full(low, most, most)) >= min(least_ns, aim_ns):
            return min(least_ns, aim_ns)
        least_ns = min(least_ns, rule_ns(_full(low, low, most)))
        if least_ns <= enough_ns:
            return least_ns
        low += 1
    return least_ns


def _full(low: int, high: int, most: int) -> CellRule:
    return CellRule(kinds=(FULL,)) if low == most else CellRule(full=(low, high))
