"""``--rank-speed``, ``--rank-memory``, ``--rank-link``, ``--rank-host-sharers``: ranks that differ from the others."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from evenflow.asking import optional
from evenflow.cli.shared.numbers import as_number
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network, RankTraits
from evenflow.ranges import RANK_SPEED, SHARERS
from evenflow.units import parse_memory, parse_time

_SPEED, _MEMORY, LINK, HOST_SHARERS = "--rank-speed", "--rank-memory", "--rank-link", "--rank-host-sharers"
_PLACED = re.compile(r"(?P<first>[0-9]{1,5})(?:-(?P<last>[0-9]{1,5}))?:(?P<value>.+)")
Value = TypeVar("Value", int, float, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOptions:
    """Speed, memory and links of ranks as given."""

    rank_speed: str | None = optional(
        _SPEED,
        metavar="RANKS:S,…",
        help="Work of some ranks in a time, as a share of what the fastest does, for which the times are: 3:0.9 or "
        "8-15:0.6, or one number for each rank.",
    )
    rank_memory: str | None = optional(
        _MEMORY,
        metavar="RANKS:SIZE,…",
        help="Memory of some ranks where it is not that of --memory: 8-15:64GB, or one size for each rank.",
    )

    rank_link: str | None = optional(
        LINK,
        metavar="RANKS:TIME,…",
        help="What a message takes longer between some ranks and the next one each, as over a slow link: 3:2ms; behind "
        "the last rank comes the first.",
    )

    rank_host_sharers: str | None = optional(
        HOST_SHARERS,
        metavar="RANKS:N,…",
        help="Devices that share the link to the host of some ranks, where these are not as many as --host-sharers "
        "says: 0-3:4, or one number for each rank.",
    )

    def applied(self, network: Network, limit_bytes: int | None, *, num_ranks: int) -> tuple[Network, int | None]:
        """Return the network with these ranks, and the largest limit of a rank, which the others are short of.

        Raises:
            InputError: a value that breaks a rule, or ranks that the pipeline does not have.
        """
        if not any((self.rank_speed, self.rank_memory, self.rank_link, self.rank_host_sharers)):
            return network, limit_bytes
        ranks = list(network.ranks or (RankTraits(),) * num_ranks)
        if self.rank_speed is not None:
            speeds = of_ranks(self.rank_speed, 1.0, _speed, num_ranks=num_ranks, place=_SPEED)
            ranks = [replace(rank, speed=speed) for rank, speed in zip(ranks, speeds, strict=True)]
        if self.rank_memory is not None:
            limits = of_ranks(self.rank_memory, limit_bytes, _size, num_ranks=num_ranks, place=_MEMORY)
            limit_bytes = max(limits)
            ranks = [
                replace(rank, reserved_bytes=limit_bytes - limit) for rank, limit in zip(ranks, limits, strict=True)
            ]
        if self.rank_link is not None:
            delays = of_ranks(self.rank_link, 0, _delay, num_ranks=num_ranks, place=LINK)
            ranks = [replace(rank, link_ns=delay) for rank, delay in zip(ranks, delays, strict=True)]
        if self.rank_host_sharers is not None:
            sharers = of_ranks(self.rank_host_sharers, 0, _sharers, num_ranks=num_ranks, place=HOST_SHARERS)
            ranks = [replace(rank, host_sharers=count or None) for rank, count in zip(ranks, sharers, strict=True)]
        return replace(network, ranks=tuple(ranks)), limit_bytes


def check_no_sharers(network: Network) -> None:
    """Refuse ranks of a network that moves nothing that share their links to the host."""
    for rank in network.ranks:
        if rank.host_sharers is not None:
            rule = _("must come with layers that move something to the host: none of their recompute kinds does")
            raise InputError(value=rank.host_sharers, rule=rule, place=HOST_SHARERS)


def _sharers(text: str, place: str) -> int:
    number: Any = as_number(text, SHARERS)
    SHARERS.check(number, place=place)
    return int(number)


def _delay(text: str, place: str) -> int:
    return parse_time(text, place=place)


def _speed(text: str, place: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        raise InputError(value=text, rule=_("must be a number"), place=place) from None
    RANK_SPEED.check(speed, place=place)
    return speed


def _size(text: str, place: str) -> int:
    return parse_memory(text, place=place, needs_unit=True)


def of_ranks(
    text: str, default: Value | None, read: Callable[[str, str], Value], *, num_ranks: int, place: str
) -> list[Value]:
    """Return the value of each rank: all in a row, or those of some ranks and the default of the others."""
    items = [item.strip() for item in text.split(",")]
    placed = [_PLACED.fullmatch(item) for item in items]
    if not any(placed):
        if len(items) != num_ranks:
            rule = _(
                "must have a value for each of the {num_ranks} ranks, or name them as 3:VALUE", num_ranks=num_ranks
            )
            raise InputError(value=text, rule=rule, place=place)
        return [read(item, place) for item in items]
    values: list[Value | None] = [default] * num_ranks
    for item, match in zip(items, placed, strict=True):
        if match is None:
            raise InputError(value=item, rule=_("must name its ranks, as the other values do"), place=place)
        first = int(match["first"])
        last = int(match["last"] or first)
        if not first <= last < num_ranks:
            rule = _("must be of ranks from 0 to {last}", last=num_ranks - 1)
            raise InputError(value=item, rule=rule, place=place)
        values[first : last + 1] = [read(match["value"], place)] * (last + 1 - first)
    known = [value for value in values if value is not None]
    if len(known) < num_ranks:
        raise InputError(
            value=text,
            rule=_("must have a value for each rank where --memory does not say that of the others"),
            place=place,
            remedy=_("add --memory"),
        )
    return known
