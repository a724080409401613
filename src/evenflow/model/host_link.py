"""The link over which a rank moves activations to the host's memory, or to that of another rank, and back."""

from dataclasses import dataclass
from itertools import chain

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.plan import Cells
from evenflow.ranges import AHEAD, BEHIND, BUFFERS, BYTES_PER_S, SHARERS


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLink:
    """What moving activations costs, and when they are fetched back.

    Copies take the link in the order in which the rank's actions ask for them. What an action's forward has made leaves
    behind it and has left when the `behind` next actions have ended: the action after these waits for it. The fetch for
    a backward begins no earlier than the action `ahead` of it, when the memory is free, and the backward waits for it.
    What comes back so soon that it would not be away during any action stays.

    Where more would be on the device than there are `buffers`, fetches begin later, those with the most time left
    first, and then copies to the host are waited for earlier, those of the first forwards first.

    What a rank moves may wait in the memory of another one, its keeper, instead (see `evenflow.simulate.pools`): the
    copies are the same, over the link between the two devices, and take the keeper no time.
    """

    bytes_per_s: int
    """Bytes that a device moves in a second in one direction, while no other device uses the link."""
    one_engine: bool = False
    """Whether one copy engine serves both directions, one copy at a time (Ascend), instead of one for each (NVIDIA)."""
    sharers: int = 1
    """Devices that share the link, each of which is taken to have an equal part of it at all times; a rank may have
    another number of them (see `RankTraits`).
    """
    buffers: int | None = None
    """Most microbatches of which what moves is on the device at a time, as far as later fetches and earlier waits for
    copies to the host are enough for that; None: any number.
    """
    ahead: int = 1
    """Actions of the rank before a backward, at whose beginning its fetch may begin; 0: at its own."""
    cell_ahead: Cells = ()
    """These actions by ``[chunk][rank]``, where they differ, in one row where those of all chunks of a rank are equal;
    empty: `ahead` for all.
    """
    behind: int = 1
    """Actions of the rank behind a forward, during which what it made leaves."""
    keepers: tuple[int | None, ...] = ()
    """For each rank, the one in whose memory waits what it moves; None: the host. Empty: the host for all."""
    keeper_bytes_per_s: int | None = None
    """Bytes that a device moves to its keeper in a second in one direction; None: as to the host."""
    takes_no_time: bool = False
    """Whether copies take no time, which only a bound assumes."""

    def __post_init__(self) -> None:
        BYTES_PER_S.check(self.bytes_per_s, place=_("the bandwidth to the host"))
        SHARERS.check(self.sharers, place=_("the devices that share the link to the host"))
        if self.buffers is not None:
            BUFFERS.check(self.buffers, place=_("the buffers for what comes from the host"))
        for ahead in (self.ahead, *chain.from_iterable(self.cell_ahead)):
            AHEAD.check(ahead, place=_("the actions by which a fetch is ahead"))
        BEHIND.check(self.behind, place=_("the actions behind a forward during which what it made leaves"))
        if self.keeper_bytes_per_s is not None:
            BYTES_PER_S.check(self.keeper_bytes_per_s, place=_("the bandwidth to the rank that keeps activations"))
        for rank, keeper in enumerate(self.keepers):
            place = _("the keeper of rank {rank}", rank=rank)
            if keeper is not None and (keeper == rank or not 0 <= keeper < len(self.keepers)):
                rule = _("must be another rank, from 0 to {last}", last=len(self.keepers) - 1)
                raise InputError(value=keeper, rule=rule, place=place)
            if keeper is not None and self.keepers[keeper] is not None:
                rule = _("must be a rank that keeps its own, or moves it to the host")
                raise InputError(value=keeper, rule=rule, place=place)

    def keeper_of(self, rank: int) -> int | None:
        """Return the rank in whose memory waits what `rank` moves; None: the host."""
        return self.keepers[rank] if self.keepers else None

    @property
    def keepers_text(self) -> str:
        """The keepers as ``--offload-to`` has them; empty without any.

        >>> HostLink(bytes_per_s=1, keepers=(3, 2, None, None)).keepers_text
        '0:3,1:2'
        """
        return ",".join(f"{rank}:{keeper}" for rank, keeper in enumerate(self.keepers) if keeper is not None)

    @property
    def ahead_entry(self) -> int | list[list[int]]:
        """The actions ahead as files have them: one number, or rows with one for each rank."""
        return [list(row) for row in self.cell_ahead] or self.ahead

    @property
    def ahead_text(self) -> str:
        """The actions ahead as ``--prefetch`` has them, once for each chunk where cells differ.

        >>> HostLink(bytes_per_s=1, cell_ahead=((1, 2), (3, 1))).ahead_text
        '--prefetch 1,2 --prefetch 3,1'
        """
        rows = [",".join(map(str, row)) for row in self.cell_ahead] or [str(self.ahead)]
        return " ".join(f"--prefetch {row}" for row in rows)

    def ns_per_byte(self, rank: int, sharers: int | None = None) -> float:
        """Return the time of a byte of a rank on its way, on the device's part of the link.

        Other `sharers` than those of the other ranks count where they are given. A copy takes a whole number of
        nanoseconds, rounded up.
        """
        if self.takes_no_time:
            return 0.0
        if self.keeper_bytes_per_s is not None and self.keeper_of(rank) is not None:
            return 1e9 / self.keeper_bytes_per_s
        return (sharers or self.sharers) * 1e9 / self.bytes_per_s
