"""The exchanges of tokens in a layer's pass: what goes to the experts, what comes back, and what runs between.

    kernels    attention | exchange | exchange |  experts  | exchange | residual
    forward                ^ dispatch              ^ MLP       ^ combine

An exchange may be several kernels, such as one for counts and one for tokens. The experts run in the longest
computation between any two of them. In a backward the combine comes first.
"""

from collections.abc import Iterable
from itertools import accumulate, pairwise

from evenflow.model import PassHalves

Span = tuple[int, int, bool]
"""Start, end and "exchanges tokens" of a kernel."""
_Interval = tuple[int, int]


def union_ns(spans: Iterable[Span]) -> int:
    """Return the time that at least one of the spans covers."""
    return sum(end - start for start, end in _merged((start, end) for start, end, _ in spans))


def pass_halves(spans: Iterable[Span], *, is_forward: bool) -> PassHalves | None:
    """Return the halves of a pass from its kernels; None where it does not exchange tokens there and back.

    An exchange counts as far as nothing is computed beside it.
    """
    kernels = list(spans)
    computed = _merged((start, end) for start, end, exchanges in kernels if not exchanges)
    exchanged = _merged((start, end) for start, end, exchanges in kernels if exchanges)
    if len(exchanged) < 2:
        return None
    between = [_covered(computed, end, start) for (_, end), (start, _) in pairwise(exchanged)]
    place = max(range(len(between)), key=between.__getitem__)
    if not between[place]:
        return None
    bare = [end - start - _covered(computed, start, end) for start, end in exchanged]
    first_ns = list(accumulate(bare))[place]
    second_ns = sum(bare) - first_ns
    dispatch_ns, combine_ns = (first_ns, second_ns) if is_forward else (second_ns, first_ns)
    return PassHalves(dispatch_ns=dispatch_ns, mlp_ns=between[place], combine_ns=combine_ns)


def _merged(intervals: Iterable[_Interval]) -> list[_Interval]:
    """Return the union of intervals as intervals that do not touch, in order."""
    merged: list[_Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _covered(merged: Iterable[_Interval], start: int, end: int) -> int:
    """Return how much of [start, end) the intervals cover, which do not overlap."""
    return sum(max(0, min(end, last) - max(start, first)) for first, last in merged)
