"""The options that say over which link activations move to the host's memory, or that of other ranks, and back."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from evenflow.asking import optional
from evenflow.cli.shared.numbers import as_number
from evenflow.cli.shared.options import BEST
from evenflow.cli.shared.rank_options import check_no_sharers, of_ranks
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Cells, HostLink, Network, with_offload
from evenflow.ranges import AHEAD, BEHIND, BUFFERS, RANKS, SHARERS
from evenflow.units import parse_bandwidth

_OFFLOAD, _LINK, _ENGINE, _SHARERS, _AHEAD, _BEHIND, _BUFFERS, _TO, _PEER = (
    "--offload", "--host-link", "--host-one-engine", "--host-sharers", "--prefetch", "--host-behind", "--host-buffers",
    "--offload-to", "--peer-link",
)  # fmt: skip
_PAIRS = "pairs"
_HOST = -1
"""Mark of a rank of which the host keeps what it moves."""
_TRIED = (
    (1, 1, None),
    (2, 1, None),
    (3, 1, None),
    (1, 1, 2),
    (1, 1, 3),
    (2, 1, 3),
    (2, 2, None),
    (3, 3, None),
    (0, 1, 1),
)
"""Actions ahead of a backward, those behind a forward, and buffers, which are tried."""


def _prefetch(text: str) -> tuple[int, ...] | str:
    """Return a value of ``--prefetch``: numbers of actions, or ``best``."""
    if text.strip().lower() == BEST:
        return BEST
    numbers: list[Any] = [as_number(part.strip(), AHEAD) for part in text.split(",")]
    if not all(number in AHEAD for number in numbers):
        rule = _("must be an integer {range}, one for each rank, or {best}", range=AHEAD.text, best=BEST)
        raise InputError(value=text, rule=rule, place=_AHEAD)
    return tuple(map(int, numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What may move to the host, and the link to it as given; what is not given is as the layers say."""

    offload: bool = optional(
        _OFFLOAD,
        default=False,
        help="Layers may keep on the host what they would keep on the device, under every recompute kind; needs "
        f"{_LINK}.",
    )
    host_link: str | None = optional(
        _LINK,
        metavar="RATE",
        help="Bandwidth of a device to the host's memory in one direction, such as 25GBps (PCIe 4, 16 lanes) or "
        "50GBps (PCIe 5).",
    )
    host_one_engine: bool = optional(
        _ENGINE, default=False, help="One copy engine serves both directions, one copy at a time, as on Ascend."
    )
    host_sharers: int | None = optional(
        _SHARERS, SHARERS, metavar="N", help="Devices that share this bandwidth, each with an equal part.  [default: 1]"
    )
    prefetch: tuple[tuple[int, ...] | str, ...] = optional(
        _AHEAD,
        default=(),
        read=_prefetch,
        is_multiple=True,
        metavar=f"N|N,N,…|{BEST}",
        help="Actions ahead of a backward at which what the host keeps for it may begin to come back: one number, or "
        "those of each rank; given once, they are for all its chunks, or give it once for each chunk, in their order. "
        f"{BEST} to plan with 1, 2 and 3, with few buffers, and with more actions for copies to the host, then with a "
        "number for each cell.  [default: 1, or as the layers say]",
    )
    host_behind: int | None = optional(
        _BEHIND,
        BEHIND,
        metavar="N",
        help="Actions behind a forward during which what it made may leave: forwards wait less for slow copies, and "
        "more is on a device.  [default: 1, or as the layers say]",
    )
    host_buffers: int | None = optional(
        _BUFFERS,
        BUFFERS,
        metavar="N",
        help="Most microbatches of which what moves is on a device at a time: fetches begin later, and forwards wait "
        "for copies, where more would be.  [default: any number]",
    )

    offload_to: str | None = optional(
        _TO,
        metavar=f"RANKS:RANK,…|{_PAIRS}|{BEST}",
        help="Ranks in whose memory waits what other ranks move, instead of the host: 0:7,1:6. "
        f"{_PAIRS}: the last rank keeps for the first, the one before it for the second, and so on; {BEST} to plan "
        "with these, with the last rank for the first half, and with the host alone.",
    )
    peer_link: str | None = optional(
        _PEER,
        metavar="RATE",
        help=f"Bandwidth of a device to the one that keeps for it, in one direction.  [default: that of {_LINK}]",
    )

    def tried(self, network: Network, *, num_ranks: int) -> tuple[HostLink, ...]:
        """Return the links to try, which differ in when they copy and who keeps what; empty: that of the network."""
        link = network.host_link
        if link is None or not network.offloads or not (self.chooses_ahead or self._to == BEST):
            return ()
        ways = [(link.ahead, link.behind, link.buffers)]
        if self.chooses_ahead:
            ways = [(ahead, self.host_behind or behind, self.host_buffers or most) for ahead, behind, most in _TRIED]
            link = replace(link, cell_ahead=())
        keepings = _tried_keepers(num_ranks) if self._to == BEST else [link.keepers]
        return tuple(
            replace(link, ahead=ahead, behind=behind, buffers=buffers, keepers=keepers)
            for keepers, (ahead, behind, buffers) in product(keepings, dict.fromkeys(ways))
        )

    @property
    def chooses_ahead(self) -> bool:
        """Whether the planner chooses when fetches begin."""
        return self.prefetch == (BEST,)

    @property
    def _prefetch_text(self) -> str:
        """The values of ``--prefetch``, as they are typed."""
        return " ".join(row if isinstance(row, str) else ",".join(map(str, row)) for row in self.prefetch)

    @property
    def _ahead(self) -> tuple[int, Cells]:
        """The actions ahead as one number, and as rows where there are several."""
        rows = tuple(row for row in self.prefetch if not isinstance(row, str))
        if len(rows) == 1 and len(rows[0]) == 1:
            return rows[0][0], ()
        return 1, rows

    @property
    def _to(self) -> str | None:
        """The value of ``--offload-to``, words in small letters."""
        return None if self.offload_to is None else self.offload_to.strip().lower()

    def applied(
        self, network: Network, *, num_ranks: int, chooses_fetches: bool = False, for_optimizer: bool = False
    ) -> Network:
        """Return the network whose layers may move what they keep, if that is asked for, over this link.

        With `for_optimizer` the optimizer's state goes over it as well, and a link is there for that alone.

        Raises:
            InputError: a value that breaks a rule, a link that is missing, one over which nothing moves, or fetches or
                keepers to try where the caller does not (`chooses_fetches`).
        """
        if self._to == BEST and not chooses_fetches:
            rule = _("must name ranks, or be {pairs}: only evenflow plan tries several", pairs=_PAIRS)
            raise InputError(value=BEST, rule=rule, place=_TO, remedy=_("name them as 0:7,1:6"))
        if BEST in self.prefetch and len(self.prefetch) > 1:
            rule = _("must be given once: it chooses the numbers of all cells")
            raise InputError(value=BEST, rule=rule, place=_AHEAD, remedy=_("leave the other values out"))
        if self.chooses_ahead and not chooses_fetches:
            rule = _("must be an integer {range}: only evenflow plan tries several", range=AHEAD.text)
            raise InputError(value=BEST, rule=rule, place=_AHEAD, remedy=_("give a number"))
        link = self.link(network.host_link)
        if link is not None:
            link = self._with_keepers(link, num_ranks)
        if self.offload:
            if link is None:
                rule = _("must come with {option}, the bandwidth to the host's memory", option=_LINK)
                raise InputError(rule=rule, place=_OFFLOAD, remedy=_("add {option}", option=_LINK))
            return with_offload(network, link)
        if network.offloads and link is not None:
            return replace(network, host_link=link)
        of_link = (self.host_link, self.host_one_engine or None, self.host_sharers)
        if for_optimizer:
            of_link = (None, None, None)
        copies = (self._prefetch_text or None, self.host_behind, self.host_buffers, self.offload_to, self.peer_link)
        values = (*of_link, *copies)
        options = (_LINK, _ENGINE, _SHARERS, _AHEAD, _BEHIND, _BUFFERS, _TO, _PEER)
        for option, value in zip(options, values, strict=True):
            if value is not None:
                rule = _("must come with {option}: no recompute kind of the layers moves anything", option=_OFFLOAD)
                raise InputError(value=value, rule=rule, place=option, remedy=_("add {option}", option=_OFFLOAD))
        check_no_sharers(network)
        return network

    def link(self, known: HostLink | None = None) -> HostLink | None:
        """Return the link as given, otherwise as `known`; None where neither says it."""
        if self.host_link is None and known is None:
            return None
        rate = 0 if known is None else known.bytes_per_s
        ahead, rows = (1, ()) if known is None else (known.ahead, known.cell_ahead)
        if self.prefetch and not self.chooses_ahead:
            ahead, rows = self._ahead
        return HostLink(
            bytes_per_s=rate if self.host_link is None else round(parse_bandwidth(self.host_link, place=_LINK)),
            one_engine=self.host_one_engine or (known is not None and known.one_engine),
            sharers=self.host_sharers or (1 if known is None else known.sharers),
            buffers=self.host_buffers or (None if known is None else known.buffers),
            behind=self.host_behind or (1 if known is None else known.behind),
            ahead=ahead,
            cell_ahead=rows,
            keepers=() if known is None else known.keepers,
            keeper_bytes_per_s=None if known is None else known.keeper_bytes_per_s,
        )

    def _with_keepers(self, link: HostLink, num_ranks: int) -> HostLink:
        """Return the link with the keepers as given, and the link to them; `best` is left to `tried`."""
        keepers = link.keepers
        if self._to == _PAIRS:
            keepers = _pairs(num_ranks)
        elif self.offload_to is not None and self._to != BEST:
            numbers = of_ranks(self.offload_to, _HOST, _keeper, num_ranks=num_ranks, place=_TO)
            keepers = tuple(None if number == _HOST else number for number in numbers)
        if self.peer_link is not None and not (self._to == BEST or any(keeper is not None for keeper in keepers)):
            rule = _("must come with {option}: no rank moves anything to another", option=_TO)
            raise InputError(value=self.peer_link, rule=rule, place=_PEER, remedy=_("add {option}", option=_TO))
        rate = link.keeper_bytes_per_s
        if self.peer_link is not None:
            rate = round(parse_bandwidth(self.peer_link, place=_PEER))
        try:
            return replace(link, keepers=keepers, keeper_bytes_per_s=rate)
        except InputError as error:
            raise InputError(value=error.value, rule=error.rule, place=f"{_TO}, {error.place}") from None


def _keeper(text: str, place: str) -> int:
    number: Any = as_number(text, RANKS)
    if not isinstance(number, int) or number < 0:
        raise InputError(
            value=text, rule=_("must be a rank, or {pairs}, or {best}", pairs=_PAIRS, best=BEST), place=place
        )
    return number


def _pairs(num_ranks: int) -> tuple[int | None, ...]:
    """Return the keepers where the last rank keeps for the first, and so on. [BPipe, ICML 2023, §3.2]"""
    return tuple(num_ranks - 1 - rank if rank < num_ranks // 2 else None for rank in range(num_ranks))


def _tried_keepers(num_ranks: int) -> list[tuple[int | None, ...]]:
    """Return the keepers to try: none, those of pairs, and the last rank for the first half."""
    of_last = tuple(num_ranks - 1 if rank < num_ranks // 2 else None for rank in range(num_ranks))
    return list(dict.fromkeys(((), _pairs(num_ranks), of_last)))
