"""The memory equations: what each term of the memory model adds to the peak of a rank. [SAPP guide, 内存分解原理]

A dry run is a plan with one chunk under 1F1B with at least as many microbatches as ranks, so that rank i of p holds
p - i microbatches at its peak. With n layers on the rank and r_k of them under recompute kind k (`none` included):

    peak_i = constant + n * parameter + (p - i) * sum_k(r_k * activation_k) + [i = 0] head + [i = p - 1] tail

The constant is in every rank, first and last included; head and tail are what those two have beyond it.
"""

from collections.abc import Sequence

from evenflow.model import Plan
from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL


def coefficients(dry_run: Plan, rank: int, unknowns: Sequence[str]) -> tuple[int, ...]:
    """Return how often each of `unknowns` (a term above or a recompute kind) counts in the peak of `rank`."""
    in_flight = dry_run.num_ranks - rank
    terms = {
        CONSTANT: 1,
        PARAMETER: dry_run.layers[0][rank],
        HEAD: int(rank == 0),
        TAIL: int(rank == dry_run.num_ranks - 1),
    }
    return tuple(terms[name] if name in terms else in_flight * dry_run.count(name, 0, rank) for name in unknowns)
