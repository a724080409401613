import pytest

from evenflow.cluster.layout import REPLICATED, TensorLayout
from evenflow.cluster.mesh_plan import MeshPlan, StageOnMesh
from evenflow.errors import InputError
from tests.cluster.clusters import mesh


def stage(rank: int, *devices: int) -> StageOnMesh:
    layout = TensorLayout(shape=(4,), item_bytes=2, mesh=(len(devices),), placement=(REPLICATED,), devices=devices)
    return StageOnMesh(rank=rank, input=layout, output=layout, parameters={})


def test_chunks_of_a_rank_share_its_devices() -> None:
    plan = MeshPlan(cluster=mesh(1, 3), stages=(stage(0, 1, 0), stage(1, 2), stage(0, 0, 1)))
    assert plan.num_ranks == 2
    assert plan.devices_of_rank() == [[0, 1], [2]]
    assert [plan.rank_of(device) for device in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("stages", [(stage(0, 0),), (stage(0, 0, 1), stage(1, 1, 2)), (stage(0, 0, 1), stage(1, 3))])
def test_each_device_belongs_to_one_rank(stages: tuple[StageOnMesh, ...]) -> None:
    with pytest.raises(InputError, match="must be each of the 3 devices once"):
        MeshPlan(cluster=mesh(1, 3), stages=stages)


def test_no_rank_is_without_a_stage() -> None:
    with pytest.raises(InputError, match=r"the ranks up to 3 must each have a stage, got \[1, 2\]"):
        MeshPlan(cluster=mesh(1, 3), stages=(stage(0, 0, 1), stage(3, 2)))
