"""Every dry run of a few ranks and layers, for exhaustive search."""

from collections.abc import Iterator
from itertools import product

import numpy as np


def contents(num_layers: int, num_kinds: int) -> Iterator[tuple[int, ...]]:
    """Every way to give the layers of a rank one of the kinds."""
    return (counts for counts in product(range(num_layers + 1), repeat=num_kinds) if sum(counts) == num_layers)


def every_round(num_ranks: int, num_layers: int, num_kinds: int) -> list[np.ndarray]:
    """The middle rows of every dry run with a layer or more on each rank."""
    middle = range(1, num_ranks - 1)
    rounds = []
    for layers in product(range(1, num_layers), repeat=len(middle)):
        if sum(layers) <= num_layers - 2:
            for cells in product(*(contents(count, num_kinds) for count in layers)):
                rows = [
                    (1, sum(cell), *((num_ranks - rank) * count for count in cell))
                    for rank, cell in zip(middle, cells, strict=True)
                ]
                rounds.append(np.array(rows))
    return rounds
