"""Resharding on four real processes: every layout pair gives each receiver exactly its part."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from evenflow.cluster.cluster import Cluster, Link
from evenflow.cluster.layout import REPLICATED, Box, TensorLayout
from evenflow.cluster.resharding import ReshardingPlan, plan_resharding
from tests.cluster.clusters import mesh
from tests_torch.run.warm_ranks import warm_context

pytestmark = pytest.mark.processes

torch = pytest.importorskip("torch")

NUM_PROCESSES = 4
SHAPES = ((8, 6), (5, 3))
HALVES = (((0, 1), (2, 3)), ((3, 1), (0, 2)), ((1,), (0, 2, 3)), ((0, 1, 2), (3,)), ((0, 1, 2, 3), (2, 0, 3, 1)))
"""Senders and receivers; the last pair changes a layout in place."""


def meshes(count: int) -> list[tuple[int, ...]]:
    return [(count,), (2, 2)] if count == 4 else [(count,)]


def layouts(shape: tuple[int, ...], devices: tuple[int, ...]) -> Iterator[TensorLayout]:
    for sizes in meshes(len(devices)):
        for placement in product((REPLICATED, 0, 1), repeat=len(sizes)):
            yield TensorLayout(shape=shape, item_bytes=8, mesh=sizes, placement=placement, devices=devices)


def clusters() -> list[Cluster]:
    """One node; two nodes with slow links, where gathering pays."""
    return [mesh(1, 4), mesh(2, 2, intra=Link(bytes_per_s=10**9), inter=Link(bytes_per_s=10**7))]


def cases() -> Iterator[ReshardingPlan]:
    for index, (senders, receivers) in enumerate(HALVES):
        for shape in SHAPES[index > 0 :]:
            for sender, receiver in product(layouts(shape, senders), layouts(shape, receivers)):
                yield plan_resharding(sender, receiver, clusters()[index % 2 == 0])


def part_of(whole: "torch.Tensor", box: Box) -> "torch.Tensor":
    return whole[tuple(slice(begin, end) for begin, end in box)]


def work(rank: int, store: str) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from evenflow_torch.run.mesh.exchange import reshard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_PROCESSES)
    for number, plan in enumerate(cases()):
        whole = (
            torch.arange(7 * 8, dtype=torch.float64)[: _volume(plan.sender.shape)].reshape(plan.sender.shape) + number
        )
        box = plan.sender.boxes.get(rank)
        result = reshard(plan, part_of(whole, box) if box else None, dtype=torch.float64)
        wanted = plan.receiver.boxes.get(rank)
        if wanted is None:
            assert result is None
        else:
            assert torch.equal(result, part_of(whole, wanted)), (rank, plan)
    # Boxes are DTensor's own.
    for shape in SHAPES:
        whole = torch.arange(_volume(shape), dtype=torch.float64).reshape(shape)
        for layout in layouts(shape, (0, 1, 2, 3)):
            device_mesh = init_device_mesh("cpu", layout.mesh)
            placements = [Replicate() if where == REPLICATED else Shard(where) for where in layout.placement]
            local = distribute_tensor(whole, device_mesh, placements).to_local()
            assert torch.equal(local, part_of(whole, layout.boxes[rank])), (rank, layout)
    if rank == 0:
        layout = TensorLayout(shape=(4,), item_bytes=8, mesh=(1,), placement=(0,), devices=(0,))
        with pytest.raises(ValueError, match=r"rank 0 sends a part of shape \(3,\)"):
            reshard(plan_resharding(layout, layout, mesh(1, 4)), torch.zeros(3), dtype=torch.float64)
    dist.barrier()
    dist.destroy_process_group()


def _volume(shape: tuple[int, ...]) -> int:
    return shape[0] * shape[1]


def test_every_layout_pair(tmp_path: Path) -> None:
    plans = list(cases())
    assert sum(bool(plan.gathers) for plan in plans) > 20
    assert sum(not plan.gathers for plan in plans) > 20
    method = warm_context().get_start_method()
    torch.multiprocessing.start_processes(work, (str(tmp_path / "store"),), NUM_PROCESSES, start_method=method)
