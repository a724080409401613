"""Finds the cheapest choices within a limit on memory, with proof.

With a price on memory the program has no limit, and its bound, less the price of the limit, is one of the limited
program. The price whose bound is highest drops most choices; what is left is searched as it is.
"""

import math
import time
from dataclasses import replace

import numpy as np

from evenflow_torch.auto.sharding.pairwise.cheapest import cheapest, shrunk
from evenflow_torch.auto.sharding.pairwise.messages import Messages
from evenflow_torch.auto.sharding.pairwise.program import Cheapest, Choices, Costs, Pairwise

_MOST_PRICES = 30
_PRICE_BITS = 12
"""Binary digits of a price: so few that prices times bytes are exact."""


def memory_alone(program: Pairwise) -> Pairwise:
    """Return the program whose cost is the memory of the choices that are allowed."""
    return Pairwise(
        costs=[
            np.where(np.isfinite(costs), memory, np.inf)
            for costs, memory in zip(program.costs, program.memory, strict=True)
        ],
        memory=program.memory,
        edges={pair: np.where(np.isfinite(costs), 0.0, np.inf) for pair, costs in program.edges.items()},
    )


def cheapest_within(program: Pairwise, memory_limit: int, free: Choices, deadline: float) -> Cheapest:
    """Find the cheapest choices within `memory_limit`; `free`, the cheapest of all, exceed it."""
    smaller = memory_alone(program)
    smallest = cheapest(smaller, Messages(smaller), None, deadline)
    if smallest.lower_bound > memory_limit:
        return Cheapest(lower_bound=np.inf)
    if smallest.choices is None or program.memory_of(smallest.choices) > memory_limit:
        return shrunk(program, memory_limit, deadline)
    messages = Messages(program)
    best = messages.settled(smallest.choices)
    best, price = _best_price(program, messages, memory_limit, (free, best), deadline)
    cost = program.cost_of(best)
    messages.change_costs(_priced(program, price))
    lower = messages.ascend(None, deadline)[0] - price * memory_limit
    if not messages.is_exact:
        return shrunk(program, memory_limit, deadline)
    rest = messages.rest(cost - 1 - lower)
    if lower > cost - 1 or rest is None:
        return Cheapest(choices=best, lower_bound=cost)
    freed = replace(rest.program, costs=_priced(rest.program, -price))
    searched = shrunk(freed, memory_limit, deadline)
    if searched.choices is not None and freed.cost_of(searched.choices) < cost:
        best = rest.expand(searched.choices)
    return Cheapest(choices=best, lower_bound=max(lower, min(cost, searched.lower_bound)))


def _best_price(
    program: Pairwise, messages: Messages, memory_limit: int, ends: tuple[Choices, Choices], deadline: float
) -> tuple[Choices, float]:
    """Return the best choices met within the limit, and the price of memory that gives the highest bound.

    Each price makes the two `ends`, one above the limit and one within it, equally dear; what is cheaper at that price
    replaces one of them, until nothing is.
    """
    above, within = ends
    highest, best_price = -np.inf, 0.0
    for _attempt in range(_MOST_PRICES):
        saved = program.memory_of(above) - program.memory_of(within)
        price = _exact_price((program.cost_of(within) - program.cost_of(above)) / saved)
        if not price or not messages.change_costs(_priced(program, price)):
            break
        lower, met = messages.ascend(None, deadline)
        if not messages.is_exact or met is None or time.monotonic() > deadline:
            break
        if lower - price * memory_limit > highest:
            highest, best_price = lower - price * memory_limit, price
        choices = messages.among_all(met)
        dear = program.cost_of(above) + price * program.memory_of(above)
        if program.cost_of(choices) + price * program.memory_of(choices) > dear - 1:
            break
        if program.memory_of(choices) > memory_limit:
            above = choices
        elif program.cost_of(choices) < program.cost_of(within):
            within = choices
        else:
            break
    return within, best_price


def _priced(program: Pairwise, price: float) -> list[Costs]:
    """Return node costs plus their memory at a price, rounded down; a negative price takes it off again."""
    step = np.copysign(1.0, price)
    return [
        costs + step * np.floor(abs(price) * memory)
        for costs, memory in zip(program.costs, program.memory, strict=True)
    ]


def _exact_price(price: float) -> float:
    """Round a price to so few binary digits that its products with bytes are exact."""
    mantissa, exponent = math.frexp(price)
    return math.ldexp(math.floor(mantissa * 2**_PRICE_BITS), exponent - _PRICE_BITS)
