"""Working memory of layers on devices, and in the networks that two-level plans are made of."""

import pytest
import torch
from torch import nn

from evenflow.cluster import Cluster, Link
from evenflow.model import FULL, NONE
from evenflow_torch.auto.sharding.ways import Level
from evenflow_torch.auto.stages.meshes_tried import sharded_stages
from evenflow_torch.auto.stages.request import TwoLevelRequest
from evenflow_torch.auto.stages.working_memory import WorkingMemory, working_memory
from evenflow_torch.models.part_trace import trace
from evenflow_torch.models.rows import row_with_inputs

WIDTH = 16


class Wide(nn.Module):
    """A tail that works on far more than it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, 64 * WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.out(hidden).relu().square().mean()


def row():
    layers = [nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(3)]
    return row_with_inputs(layers, torch.empty(8, WIDTH), tail=Wide())


def test_a_device_works_on_its_part_of_what_is_divided() -> None:
    known = WorkingMemory(activation_bytes=100, plain_bytes=40, recomputing_bytes={FULL: 81})
    assert known.on_device(40, activation_bytes=25, num_devices=4) == 10
    assert known.on_device(81, activation_bytes=100, num_devices=4) == 81, "every device has all of it"
    assert known.on_device(81, activation_bytes=0, num_devices=4) == 21, "at least its share, rounded up"


def test_on_one_device_it_is_that_of_the_profile() -> None:
    parts = row().parts
    layer, tail = working_memory((parts[0], parts[-1]), ends=(1,))
    assert (layer.plain_bytes, layer.recomputing_bytes[FULL]) == tuple(
        trace(parts[0], kind).working_bytes for kind in (NONE, FULL)
    )
    assert layer.recomputing_bytes[FULL] > layer.plain_bytes
    assert tail.plain_bytes == trace(parts[-1], NONE).working_bytes
    assert not tail.recomputing_bytes, "ends of the model do not recompute"
    assert tail.plain_bytes >= 8 * 64 * WIDTH * 4, "at least the result, beside what is kept"


@pytest.mark.parametrize("devices", [1, 2])
def test_it_is_in_the_networks_that_stages_are_planned_with(devices: int) -> None:
    cluster = Cluster(
        num_nodes=1, devices_per_node=devices, memory_bytes=2**30,
        intra=Link(bytes_per_s=10**11), inter=Link(bytes_per_s=10**10),
    )  # fmt: skip
    request = TwoLevelRequest(
        cluster=cluster, num_microbatches=4, optimizer_bytes_per_parameter=8,
    )  # fmt: skip
    provider = sharded_stages(row(), request)
    whole = trace(row().parts[-1], NONE).working_bytes
    for submesh, meshes in provider.costs.items():
        for costs in meshes.values():
            network = provider._made(costs, Level(0))
            assert network.constant_bytes == 0
            assert -(-whole // submesh.num_devices) <= network.tail.working_bytes <= whole
            assert all(
                layer.modes[FULL].working_bytes > layer.modes[NONE].working_bytes > 0 for layer in network.layers
            )
