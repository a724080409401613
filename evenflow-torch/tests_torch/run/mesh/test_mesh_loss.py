"""Shares of a loss add up to it; one process, whose shares are all there are."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.nn.functional import mse_loss

from evenflow_torch.run.mesh.mesh_loss import MeshLoss


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
    loss = MeshLoss(mse_loss, stage)
    output, target = torch.arange(8.0).reshape(4, 2), torch.ones(4, 2)
    whole = mse_loss(output, target)
    share = loss(output, target)
    assert torch.equal(share * num_parts, whole)
    assert torch.equal(loss.total(share), whole)
    assert torch.equal(share * num_parts, whole), "the share itself stays as it is"
