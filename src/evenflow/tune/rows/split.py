"""A way to split the devices, and a microbatch, whose configurations differ in ZeRO and in the order of work."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.predict.parameters import dense_group, expert_group
from evenflow.predict.training import Sharding, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to split the devices, and a microbatch: all its configurations, which any ZeRO and order may make."""

    first: Training
    """With the least ZeRO, in the first order."""
    shardings: tuple[Sharding, ...]
    """From the least to the most that is shared out."""
    orders: tuple[tuple[str, int], ...]
    """Schedules, with numbers of chunks."""

    def __len__(self) -> int:
        return len(self.shardings) * len(self.orders)

    @property
    def most_shared(self) -> Training:
        """The configuration with the most that is shared out, in the first order."""
        return replace(self.first, degrees=replace(self.first.degrees, sharding=self.shardings[-1]))

    def trainings(self) -> Iterator[Training]:
        """Yield the configurations."""
        first, layers = self.first, self.first.model.layers
        layouts = {chunks: dealt(layers, first.degrees.pipeline, chunks) for _schedule, chunks in self.orders}
        for sharding in self.shardings:
            for schedule, chunks in self.orders:
                degrees = replace(first.degrees, sharding=sharding, chunks=chunks)
                yield replace(first, degrees=degrees, schedule=schedule, layout=layouts[chunks])


def split_of(first: Training, shardings: Sequence[Sharding], orders: tuple[tuple[str, int], ...]) -> Split:
    """Return the split of a training, without stages of ZeRO that are the same because nothing has copies."""
    alone = dense_group(first.degrees).size == 1 and (first.model.experts is None or expert_group(first).size == 1)
    same = [sharding for sharding in shardings if sharding is not Sharding.PARAMETERS] if alone else []
    kept = tuple(sharding for sharding in shardings if sharding not in same[1:])
    (schedule, chunks), layers = orders[0], first.model.layers
    degrees = replace(first.degrees, sharding=kept[0], chunks=chunks)
    layout = dealt(layers, degrees.pipeline, chunks)
    return Split(first=replace(first, degrees=degrees, schedule=schedule, layout=layout), shardings=kept, orders=orders)


def dealt(layers: int, pipeline: int, chunks: int) -> tuple[tuple[int, ...], ...]:
    """Return the layers of every cell [chunk][rank] as evenly as they can be dealt."""
    cells = pipeline * chunks
    of_cell, rest = divmod(layers, cells)
    return tuple(
        tuple(of_cell + (chunk * pipeline + rank < rest) for rank in range(pipeline)) for chunk in range(chunks)
    )
