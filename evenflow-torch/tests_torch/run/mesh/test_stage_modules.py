"""Placements of a plan as torch has them, of matrices and of the tensors that they stand for."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.tensor import Placement, Replicate, Shard

from evenflow.cluster import split_along
from evenflow.cluster.layout import REPLICATED
from evenflow_torch.run.mesh.local_parts import torch_placements
from evenflow_torch.run.mesh.stage_modules import _of_tensor


def test_placements_are_shards_or_copies() -> None:
    assert torch_placements((REPLICATED, 0, 2)) == [Replicate(), Shard(0), Shard(2)]


@pytest.mark.parametrize(
    ("of_matrix", "expected"),
    [
        ((REPLICATED, 1), [Replicate(), Shard(2)]),
        ((0, 0), [Shard(0), Shard(1)]),  # two samples are split once; then their positions
        ((1, 0), [Shard(2), Shard(0)]),
        ((split_along(0, 2), 0), [Shard(1), Shard(0)]),  # positions of both samples, and samples
        ((split_along(0, 2), REPLICATED), [Shard(1), Replicate()]),
    ],
)
def test_rows_of_a_matrix_are_split_in_the_first_dimension_that_can_be(
    of_matrix: tuple[int, ...], expected: list[Placement]
) -> None:
    tensor: Any = SimpleNamespace(shape=(2, 6, 8), device_mesh=SimpleNamespace(size=lambda _axis: 2))
    assert _of_tensor(tensor, of_matrix) == expected


def test_rows_that_cannot_be_split_stay_as_they_are() -> None:
    tensor: Any = SimpleNamespace(shape=(3, 5, 8), device_mesh=SimpleNamespace(size=lambda _axis: 2))
    assert _of_tensor(tensor, (0,)) is None
