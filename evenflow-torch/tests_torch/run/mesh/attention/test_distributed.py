"""Attention keeps the query's split of batch and heads where keys and values can be split so too."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.tensor import Placement, Replicate, Shard

from evenflow_torch.run.mesh.attention.distributed import _placements

WHOLE = Replicate()
BATCH, HEADS, LENGTH, WIDTH = Shard(0), Shard(1), Shard(2), Shard(3)


@pytest.mark.parametrize(
    ("sizes", "of_query", "key_shape", "expected"),
    [
        ((2, 2), (BATCH, HEADS), (4, 2), (BATCH, HEADS)),
        ((2, 4), (BATCH, HEADS), (4, 2), (BATCH, WHOLE)),  # two heads of keys on four devices
        ((2, 2), (HEADS, HEADS), (4, 2), (HEADS, WHOLE)),  # only one axis has heads left
        ((2,), (LENGTH,), (4, 2), (LENGTH,)),  # rows of the query, which get all keys
        ((3,), (LENGTH,), (4, 2), (WHOLE,)),  # eight rows on three devices
        ((2,), (WIDTH,), (4, 2), (WHOLE,)),
        ((2,), (WHOLE,), (4, 2), (WHOLE,)),
    ],
)
def test_a_split_stays_where_the_keys_have_it_too(
    sizes: tuple[int, ...], of_query: tuple[Placement, ...], key_shape: tuple[int, ...], expected: tuple[Placement, ...]
) -> None:
    query: Any = SimpleNamespace(shape=(8, 8, 8, 16), device_mesh=SimpleNamespace(size=lambda axis: sizes[axis]))
    key: Any = SimpleNamespace(shape=(*key_shape, 8, 16))
    assert tuple(_placements(query, key, of_query)) == expected
