"""A way to split the devices, and a microbatch, whose configurations differ in where their state is and in the order of
work.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenflow.predict.parameters import dense_group, expert_group
from evenflow.predict.training import Sharding, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to split the devices, and a microbatch: all its configurations, of any ZeRO and order, and with any part
    of the optimizer's state on the host.
    """

    first: Training
    """With the least ZeRO, in the first order."""
    shardings: tuple[Sharding, ...]
    """From the least to the most that is shared out."""
    orders: tuple[tuple[str, int], ...]
    """Schedules, with numbers of chunks."""
    offloads: Mapping[Sharding, tuple[float, ...]] = field(default_factory=dict)
    """Parts of the optimizer's state that the host keeps, the least first, by what is shared out; nothing unless named.
    """

    def __len__(self) -> int:
        return sum(len(self.offloads_of(sharding)) for sharding in self.shardings) * len(self.orders)

    def offloads_of(self, sharding: Sharding) -> tuple[float, ...]:
        """Return the parts of the state that the host keeps beside so much that is shared out."""
        return self.offloads.get(sharding, (0.0,))

    @property
    def most_shared(self) -> Training:
        """The configuration with the most that is shared out, in the first order."""
        return replace(self.first, degrees=replace(self.first.degrees, sharding=self.shardings[-1]))

    def trainings(self) -> Iterator[Training]:
        """Yield the configurations."""
        first, layers = self.first, self.first.model.layers
        layouts = {chunks: dealt(layers, first.degrees.pipeline, chunks) for _schedule, chunks in self.orders}
        states = [(sharding, part) for sharding in self.shardings for part in self.offloads_of(sharding)]
        for sharding, part in states:
            for schedule, chunks in self.orders:
                degrees = replace(first.degrees, sharding=sharding, chunks=chunks, optimizer_offload=part)
                yield replace(first, degrees=degrees, schedule=schedule, layout=layouts[chunks])


def split_of(
    first: Training,
    shardings: Sequence[Sharding],
    orders: tuple[tuple[str, int], ...],
    offloads: Mapping[Sharding, tuple[float, ...]],
) -> Split:
    """Return the split of a training, without stages of ZeRO that are the same because nothing has copies."""
    alone = dense_group(first.degrees).size == 1 and (first.model.experts is None or expert_group(first).size == 1)
    same = [sharding for sharding in shardings if sharding is not Sharding.PARAMETERS] if alone else []
    kept = tuple(sharding for sharding in shardings if sharding not in same[1:])
    (schedule, chunks), layers = orders[0], first.model.layers
    degrees = replace(first.degrees, sharding=kept[0], chunks=chunks)
    layout = dealt(layers, degrees.pipeline, chunks)
    first = replace(first, degrees=degrees, schedule=schedule, layout=layout)
    return Split(first=first, shardings=kept, orders=orders, offloads=offloads)


def is_near(first: Training, other: Training) -> bool:
    """Return whether two splits are one step apart: of degrees and microbatch one or two differ, by a factor of two."""
    pairs = [
        (getattr(first.degrees, name), getattr(other.degrees, name))
        for name in ("tensor", "context", "expert", "pipeline", "data")
    ]
    ratios = [max(pair) / min(pair) for pair in (*pairs, (first.microbatch, other.microbatch)) if pair[0] != pair[1]]
    return 1 <= len(ratios) <= 2 and max(ratios) <= 2


def dealt(layers: int, pipeline: int, chunks: int) -> tuple[tuple[int, ...], ...]:
    """Return the layers of every cell [chunk][rank] as evenly as they can be dealt."""
    cells = pipeline * chunks
    of_cell, rest = divmod(layers, cells)
    return tuple(
        tuple(of_cell + (chunk * pipeline + rank < rest) for rank in range(pipeline)) for chunk in range(chunks)
    )
