"""Which group of unlike ranks stands where: the different orders of groups of ranks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import factorial, prod

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network, RankTraits

MOST_ORDERS = 200
"""Most orders that are tried: each has its own search and its own proof."""

_Group = tuple[RankTraits, ...]


def rank_orders(ranks: Sequence[RankTraits], size: int, *, place: str = "") -> list[tuple[int, ...]]:
    """Return the different orders of groups of `size` ranks in a row: for each rank, which one of `ranks` it is.

    The order in which they are comes first. Groups that are alike stay in the order in which they are.

    Raises:
        InputError: at `place`, ranks that do not make whole groups, or more than `MOST_ORDERS` orders.
    """
    place = place or _("the number of ranks that are placed together")
    if any(rank.link_ns for rank in ranks):
        rule = _("must not be given where links differ, which do not move with their ranks")
        raise InputError(value=size, rule=rule, place=place)
    if len(ranks) % size:
        rule = _("must divide the {num_ranks} ranks", num_ranks=len(ranks))
        raise InputError(value=size, rule=rule, place=place)
    groups = [tuple(ranks[first : first + size]) for first in range(0, len(ranks), size)]
    alike = Counter(groups)
    number = factorial(len(groups)) // prod(factorial(copies) for copies in alike.values())
    if number > MOST_ORDERS:
        rule = _("must leave at most {most} different orders, not {number:,}", most=MOST_ORDERS, number=number)
        raise InputError(value=size, rule=rule, place=place, remedy=_("place more ranks together, such as whole nodes"))
    orders = []
    for row in _arrangements(alike):
        members = {kind: iter([index for index, group in enumerate(groups) if group == kind]) for kind in alike}
        moved = [next(members[kind]) for kind in row]
        orders.append(tuple(index * size + inner for index in moved for inner in range(size)))
    return sorted(orders)


def _arrangements(left: Counter[_Group]) -> Iterator[tuple[_Group, ...]]:
    """Yield every different row of the groups that are left."""
    if not left:
        yield ()
    for kind in left:
        for rest in _arrangements(left - Counter([kind])):
            yield (kind, *rest)


def reordered(network: Network, order: Sequence[int]) -> Network:
    """Return the network with its ranks in another order."""
    return replace(network, ranks=tuple(network.ranks[rank] for rank in order))


def shown_order(order: Sequence[int]) -> str:
    """Return the ranks of an order as text, runs of them shortened: ``4-7, 0-3``."""
    starts = [place for place, rank in enumerate(order) if not place or order[place - 1] != rank - 1]
    runs = [order[start:end] for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
