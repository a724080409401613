"""A plan: the number of layers of each cell, their recomputation, and the order of the work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.recompute import NONE
from evenflow.model.sizes import Sizes
from evenflow.ranges import LAYERS, MEMORY_BYTES, PART

Cells: TypeAlias = tuple[tuple[int, ...], ...]
"""One integer per cell, indexed ``[chunk][rank]``."""


def cells(rows: Sequence[Sequence[int]]) -> Cells:
    """Return `rows` as an immutable ``[chunk][rank]`` table."""
    return tuple(tuple(int(value) for value in row) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedShare:
    """One share of what moves to the host, by which a framework makes the counts of every cell."""

    kind: str
    """The recompute kind of layers of which all moves that can."""
    share: float
    """Of the modules of a cell, those that move, the first ones (see `evenflow.model.moved_share`)."""
    kept_bytes: int = 0
    """Bytes that every further rank moves less, once in a step (see `evenflow.model.kept_first`)."""

    def __post_init__(self) -> None:
        PART.check(self.share, place="moved_share")
        MEMORY_BYTES.check(self.kept_bytes, place="moved_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Layers and recompute counts of every cell ``[chunk][rank]``, and the schedule that runs them.

    Stages hold the layers of the network in order; the schedule's placement says which stage a cell is (by default
    ``chunk * num_ranks + rank``). Within a cell the first layers recompute: its `full` layers come first, then `both`,
    `select`, `comm`, user-named kinds, none.
    """

    schedule: str
    num_microbatches: int
    layers: Cells
    recompute: Mapping[str, Cells] = field(default_factory=dict)
    """Number of layers of every cell under exactly one kind, by kind; kinds that are absent count zero."""
    sequence_splits: int = 1
    """Parts that each sequence is cut into."""
    group_size: int | None = None
    """Microbatches of a group in an interleaved schedule; None: as many as fill the pipeline."""
    mtp_layers: int = 0
    """How many of the layers, the last ones, predict further tokens; frameworks count them apart."""
    encoder_layers: int = 0
    """How many of the layers, the first ones, are of an encoder; frameworks have it in their first stage, uncounted."""
    encodes_apart: bool = False
    """Whether encoders run on all ranks beside this pipeline, which no framework does."""
    continuing_layers: int = 0
    """How many of the layers continue the block of the layer before them, which few frameworks count as layers."""
    moved_share: MovedShare | None = None
    """The share that the counts of kinds that move to the host come from; None where cells have counts of their own."""
    delays_weights: bool | None = None
    """Whether weight gradients of experts come behind what an exchange waits for, where forwards run beside backwards;
    None: wherever the layers tell what they take.
    """
    releases_attention: bool = False
    """Whether attention goes backward before the MLP beside it goes forward, where forwards run beside backwards."""
    order: tuple[str, ...] = ()
    """The plan's own order of work where it is not that of a family: one line per rank, its actions in the text form of
    `evenflow.schedule.text`, such as ``0F0,0F1,0B0,0B1``. Stages are on the ranks that run them.
    """

    def __post_init__(self) -> None:
        if not self.layers or not self.layers[0]:
            raise InputError(value=self.layers, rule=_("must have at least one chunk and one rank"), place="layers")
        shape = (self.num_chunks, self.num_ranks)
        for name, table in (("layers", self.layers), *self.recompute.items()):
            if len(table) != shape[0] or any(len(row) != shape[1] for row in table):
                raise InputError(
                    value=[list(row) for row in table],
                    rule=_(
                        "must have a row for each chunk and a number for each rank, {num_chunks} x {num_ranks}",
                        num_chunks=shape[0],
                        num_ranks=shape[1],
                    ),
                    place=name,
                )
            if not all(0 <= value <= LAYERS.most for row in table for value in row):
                rule = _("must have counts from 0 to {most:,}", most=LAYERS.most)
                raise InputError(value=[list(row) for row in table], rule=rule, place=name)
        for name in ("mtp_layers", "encoder_layers", "continuing_layers"):
            if not 0 <= getattr(self, name) <= self.num_layers:
                rule = _("must be at most the {count} layers of the plan", count=self.num_layers)
                raise InputError(value=getattr(self, name), rule=rule, place=name)
        if self.order and len(self.order) != self.num_ranks:
            raise InputError(
                value=len(self.order),
                rule=_("must have one line for each of the {num_ranks} ranks", num_ranks=self.num_ranks),
                place="order",
            )
        if self.group_size is not None and (self.group_size < 1 or self.order):
            own = _("must not be given beside an order of the plan's own")
            rule = own if self.order else _("must be at least 1")
            raise InputError(value=self.group_size, rule=rule, place=_("group size"))
        if NONE in self.recompute:
            rule = _("must not list layers without recompute: they are the rest")
            raise InputError(value=NONE, rule=rule, place="recompute")
        for chunk in range(self.num_chunks):
            for rank in range(self.num_ranks):
                total = sum(table[chunk][rank] for table in self.recompute.values())
                if total > self.layers[chunk][rank]:
                    raise InputError(
                        value=total,
                        rule=_("must be at most the {layers} layers of the cell", layers=self.layers[chunk][rank]),
                        place=_("recompute, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
                    )
        _sizes = self.sizes  # refused there where they make no sense

    @property
    def sizes(self) -> Sizes:
        """The sizes of the pipeline."""
        return Sizes(
            num_ranks=self.num_ranks,
            num_chunks=self.num_chunks,
            num_microbatches=self.num_microbatches,
            sequence_splits=self.sequence_splits,
        )

    @property
    def num_ranks(self) -> int:
        """Number of pipeline ranks."""
        return len(self.layers[0])

    @property
    def num_chunks(self) -> int:
        """Number of model chunks (virtual stages) of each rank."""
        return len(self.layers)

    @property
    def num_layers(self) -> int:
        """Number of body layers."""
        return sum(sum(row) for row in self.layers)

    def mtp_in(self, chunk: int, rank: int) -> int:
        """Return how many layers of the cell predict further tokens, where stages are on ranks in turn."""
        behind = sum(map(sum, self.layers[chunk + 1 :])) + sum(self.layers[chunk][rank + 1 :])
        return min(self.layers[chunk][rank], max(0, self.mtp_layers - behind))

    @property
    def used_kinds(self) -> tuple[str, ...]:
        """The recompute kinds that some layer is under, `none` apart."""
        return tuple(kind for kind, table in self.recompute.items() if any(map(any, table)))

    @property
    def num_recomputed(self) -> int:
        """Layers that recompute, of any kind."""
        return sum(count for table in self.recompute.values() for row in table for count in row)

    def count(self, kind: str, chunk: int, rank: int) -> int:
        """Return the number of layers of the cell under exactly `kind`; `none` counts the rest."""
        if kind == NONE:
            return self.layers[chunk][rank] - sum(table[chunk][rank] for table in self.recompute.values())
        table = self.recompute.get(kind)
        return table[chunk][rank] if table else 0
