"""Finds the cheapest choices of a program, with proof.

Message passing bounds the cost and finds choices; mostly both meet, and that is all. Else choices that no better
solution has are dropped, what is left shrinks (`reduction`), and the rest is solved in the same way. Once it shrinks no
more, message passing is given more rounds: they take milliseconds, where an integer program, the last resort, may take
seconds.
"""

import time
from dataclasses import replace

import numpy as np

from evenflow_torch.auto.sharding.pairwise.integer_program import search
from evenflow_torch.auto.sharding.pairwise.messages import Messages, Positions
from evenflow_torch.auto.sharding.pairwise.program import Cheapest, Pairwise
from evenflow_torch.auto.sharding.pairwise.reduction import Reduction

_SHRUNK = 0.7
"""A program has shrunk if at most this share of its choices is left."""


def cheapest(
    program: Pairwise,
    messages: Messages,
    best: Positions | None,
    deadline: float,
    *,
    near: float = 0.0,
    patient: bool = False,
) -> Cheapest:
    """Find the cheapest choices of a program; `messages` are of it, and `best` are choices that are known.

    Where messages alone prove that nothing saves more than the share `near` of the cost, that is enough.
    With `patient` they are given more rounds.
    """
    lower, best = messages.ascend(best, deadline, patient=patient)
    cost = np.inf if best is None else messages.cost_of(best)
    known = Cheapest(choices=None if best is None else messages.among_all(best), lower_bound=cost)
    if lower == np.inf or lower > cost - 1:
        return known
    if best is not None and cost - lower <= near * cost:
        return replace(known, lower_bound=lower)
    if not messages.is_exact:
        return shrunk(program, None, deadline, was_patient=patient)
    rest = messages.rest(cost - 1 - lower)
    if rest is None:
        return known
    cheaper = shrunk(rest.program, None, deadline, was_patient=patient)
    lower = max(lower, min(cost, cheaper.lower_bound))
    if cheaper.choices is None or rest.program.cost_of(cheaper.choices) >= cost:
        return replace(known, lower_bound=lower)
    return Cheapest(choices=rest.expand(cheaper.choices), lower_bound=lower)


def shrunk(program: Pairwise, memory_limit: int | None, deadline: float, *, was_patient: bool = False) -> Cheapest:
    """Find the cheapest choices within the limit: settle what can be settled without search, and search the rest.

    `was_patient` tells that message passing has had more rounds, so that search is what remains.
    """
    reduction = Reduction(program, keep_memory=memory_limit is not None)
    if reduction.constant == np.inf:
        return Cheapest(lower_bound=np.inf)
    rest = reduction.rest()
    if not rest.costs:
        fits = memory_limit is None or reduction.memory_constant <= memory_limit
        return (
            Cheapest(choices=reduction.expand(()), lower_bound=reduction.constant)
            if fits
            else Cheapest(lower_bound=np.inf)
        )
    is_smaller = sum(map(len, rest.costs)) <= _SHRUNK * sum(map(len, program.costs))
    if memory_limit is None and (is_smaller or not was_patient):
        searched = cheapest(rest, Messages(rest), None, deadline, patient=was_patient or not is_smaller)
    else:
        searched = search(
            rest,
            memory_limit=None if memory_limit is None else memory_limit - reduction.memory_constant,
            time_limit_s=deadline - time.monotonic(),
        )
    return Cheapest(
        choices=None if searched.choices is None else reduction.expand(searched.choices),
        lower_bound=searched.lower_bound + reduction.constant,
    )
