"""Placements of a plan as torch has them, of matrices and of the tensors that they stand for; shares of a loss."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.nn.functional import mse_loss

from evenflow.cluster import split_along
from evenflow.cluster.layout import REPLICATED
from evenflow_torch.run.mesh.local_parts import torch_placements
from evenflow_torch.run.mesh.stage_modules import MeshLoss, _of_tensor


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


@pytest.fixture
def device_mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1, 1))
    dist.destroy_process_group()


@pytest.mark.parametrize("num_parts", [1, 4])
def test_a_share_is_its_part_of_the_mean_and_all_shares_are_the_loss(device_mesh: DeviceMesh, num_parts: int) -> None:
    stage: Any = SimpleNamespace(
        mesh=device_mesh, output_placements=[Shard(0), Replicate()], num_output_parts=num_parts
    )
    loss = MeshLoss(mse_loss, stage, is_sum=False)
    output, target = torch.arange(8.0).reshape(4, 2), torch.ones(4, 2)
    whole = mse_loss(output, target)
    share = loss(output, target)
    assert torch.equal(share * num_parts, whole)
    assert torch.equal(loss.total(share), whole)
    assert torch.equal(share * num_parts, whole), "the share itself stays as it is"
