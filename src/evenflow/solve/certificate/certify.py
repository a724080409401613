"""A certificate of a plan: the highest bound that can be proven in the time so that others can check it."""

import math
from collections.abc import Callable

import msgspec

from evenflow.simulate import Integers
from evenflow.solve.certificate.described import described
from evenflow.solve.certificate.game import Shares
from evenflow.solve.certificate.path_book import PathBook
from evenflow.solve.certificate.tree import KnownGraphs, Mixtures, NotRefuted, TreeSearch
from evenflow.solve.clock import now_s
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.verify import BoundEvidence, Certificate, Checker, TreeOfCut, verify

_DENOMINATOR = 2**20
"""Parts that shares are rounded to, where sums of so many stay exact."""
_FIRST_MARGIN, _LEAST_MARGIN, _LARGEST_MARGIN = 0.08, 0.002, 0.5
"""Distance below the plan, as a share of it, of the first target; below which all are as hard; of the last one."""
_CLOSER = 4
"""How many times as close the next target is after one that was refuted, while none has failed; then the tolerance."""
_STEP = 2.5
"""How many times as far the next target is after one that was not refuted, while none has been."""
_CLOSE = 1.3
"""Ratio of the margins that are refuted and not, up to which nothing between them is tried."""
_TRIAL_SHARE = 0.5
"""Share of the time left that one target may take."""


def certify(
    problem: Problem,
    counts: Integers,
    *,
    seconds: float,
    keep_going: Callable[[], bool] = lambda: True,
    report: Callable[[int], None] = lambda bound_ns: None,
) -> Certificate | None:
    """Return a certificate of the plan with these counts [num_cells, num_kinds]; None where the time is too short.

    Targets below the plan are refuted one after the other, each in a share of the time that is left: first one far
    below, then closer ones as long as they are refuted, down to the solver's tolerance, then others in between. It ends
    early when `keep_going` says no, and `report` gets each new bound. What is returned has been checked, which takes
    time beyond the `seconds`.
    """
    claim = described(problem, counts)
    makespan_ns, end_s = claim.claim.makespan_ns, now_s() + seconds
    refuted = 1.0
    closest = 2 * TOLERANCE
    margin, failed, best = _FIRST_MARGIN, 0.0, None
    checker = Checker(_with(claim, _bound_ns(makespan_ns, closest)))
    mixtures, graphs = Mixtures(PathBook(problem, checker.graphs.stages), _denominator(checker)), KnownGraphs(checker)
    while margin <= _LARGEST_MARGIN and keep_going() and now_s() < end_s:
        bound_ns, until_s = _bound_ns(makespan_ns, margin), now_s() + _TRIAL_SHARE * (end_s - now_s())

        def goes_on(until_s: float = until_s) -> bool:
            return keep_going() and now_s() < until_s

        trees = _trees(graphs, mixtures, bound_ns, goes_on)
        if trees is None:
            failed = max(margin, _LEAST_MARGIN)
            margin = _STEP * margin if best is None else math.sqrt(refuted * failed)
            continue
        refuted, best = margin, _with(claim, bound_ns, _evidence(mixtures, trees))
        report(bound_ns)
        nearer = margin / _CLOSER if margin > _CLOSER * _LEAST_MARGIN else closest
        margin = math.sqrt(refuted * failed) if failed else nearer
        if refuted == closest or refuted <= _CLOSE * failed:
            break
    if best is not None:
        verify(best)
    return best


def _trees(
    graphs: KnownGraphs, mixtures: Mixtures, bound_ns: int, keep_going: Callable[[], bool]
) -> list[TreeOfCut] | None:
    """Return the trees of all cuts between the chunks, those in the middle first; None where one is out of reach."""
    search = TreeSearch(graphs, mixtures, target_ns=bound_ns - 1, keep_going=keep_going)
    checker = graphs.checker
    middles = sorted(checker.graphs.middles, key=lambda middle: abs(2 * middle - checker.costs.num_layers))
    trees, first = [], Shares()
    try:
        for middle in middles:
            tree = search.tree(middle, first)
            if tree is not None:
                trees.append(tree)
                first = mixtures.exact(tree.nodes[0][0][-1]) if tree.nodes[0][0] else first
    except NotRefuted:
        return None
    return sorted(trees, key=lambda tree: tree.middle)


def _bound_ns(makespan_ns: int, margin: float) -> int:
    return max(1, math.ceil(makespan_ns * (1 - margin)))


def _denominator(checker: Checker) -> int:
    denominator = _DENOMINATOR
    while denominator > 1 and not checker.is_exact(denominator):
        denominator //= 2
    return denominator


def _with(claim: Certificate, bound_ns: int, evidence: BoundEvidence | None = None) -> Certificate:
    """Return a certificate with another bound, and its evidence."""
    claimed = msgspec.structs.replace(claim.claim, bound_ns=bound_ns)
    return msgspec.structs.replace(claim, claim=claimed, evidence=evidence or claim.evidence)


def _evidence(mixtures: Mixtures, trees: list[TreeOfCut]) -> BoundEvidence:
    """Return the evidence with the mixtures and paths that the trees need, numbered anew."""
    named = sorted({mixture for tree in trees for drops, _split in tree.nodes for mixture in drops})
    number_of = {mixture: number for number, mixture in enumerate(named)}
    paths = sorted({path for mixture in named for path, _share in mixtures.shares[mixture]})
    place_of = {path: place for place, path in enumerate(paths)}
    return BoundEvidence(
        paths=[mixtures.book.written[path] for path in paths],
        denominator=mixtures.denominator,
        mixtures=[[(place_of[path], share) for path, share in mixtures.shares[mixture]] for mixture in named],
        trees=[
            TreeOfCut(
                middle=tree.middle,
                nodes=[([number_of[mixture] for mixture in drops], split) for drops, split in tree.nodes],
            )
            for tree in trees
        ],
    )
