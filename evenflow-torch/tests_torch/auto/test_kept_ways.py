"""The ways of sharding that a user's decisions leave, and why none is left."""

import pytest

from evenflow.cluster import Cluster, Link, Mesh, MeshAxis, submeshes
from evenflow.errors import InputError
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.kept_ways import restricted
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts
from evenflow_torch.auto.sharding.plain.solutions import no_time
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay
from evenflow_torch.auto.stages.sharded_stages import ShardedStages

LINK = Link(bytes_per_s=10**9)
CLUSTER = Cluster(num_nodes=1, devices_per_node=2, memory_bytes=2**30, intra=LINK, inter=LINK)
TENSOR = PlainWay(roles=(AxisRole.TENSOR,))


def provider(reason: str, *left_out: str) -> ShardedStages:
    """Two devices, on which nothing is sharded for `reason`."""
    submesh = submeshes(CLUSTER)[-1]
    mesh = Mesh(axes=(MeshAxis(size=2, bandwidth_bytes_per_s=10**9),))
    costs = MeshCosts(mesh=mesh, order=(0,), layers=({},), handed_over=(), missing={TENSOR: reason})
    return ShardedStages(
        name="none",
        cluster=CLUSTER,
        num_microbatches=1,
        costs={submesh: {mesh.shape: costs}},
        has_head=False,
        has_tail=False,
        left_out=left_out,
    )


@pytest.mark.parametrize("cut_short", [provider(no_time()), provider("3 heads", "1x1")])
def test_a_time_limit_is_not_taken_for_degrees_that_cannot_be(cut_short: ShardedStages) -> None:
    with pytest.raises(InputError, match=r"the time limit must be enough seconds to shard .* with tensor=2, got 7"):
        restricted(cut_short, Fixed(tensor=2), Deadline.after(7))


def test_degrees_that_cannot_be_are_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"the degrees must be degrees with which .* got 'tensor=2'; 3 heads"):
        restricted(provider("3 heads"), Fixed(tensor=2), Deadline.after(7))
