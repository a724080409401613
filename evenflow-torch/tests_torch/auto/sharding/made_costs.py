"""Costs of layers on one mesh, made up of round numbers."""

from collections.abc import Sequence

from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.placement import REPLICATE, Placement, WholeTensor
from evenflow.solve import Status
from evenflow_torch.auto.sharding.mesh_costs import NUMBERS, LayerCost, MeshCosts, StageOption
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.sharding.ways import Level

HIDDEN = WholeTensor(shape=(8, 100), item_bytes=1)
SPLIT, WHOLE = (0,), (REPLICATE,)
GATHER_NS = 400
"""An all-gather of HIDDEN on `made_costs`' mesh: half of 800 bytes, a byte per nanosecond."""


def layer_cost(
    slope: int, *, base: int = 0, entry: Placement = SPLIT, leave: Placement = SPLIT, gathered_bytes: int = 0
) -> LayerCost:
    """Every number of k layers is ``base + k * slope``; gradients lie as what they belong to."""
    plan = ShardingPlan(status=Status.OPTIMAL, mesh_shape=(2,), memory_limit_bytes=None, lower_bound_ns=0)
    return LayerCost(
        base=StageOption(**dict.fromkeys(NUMBERS, base), way=Level.FASTEST),
        slope=StageOption(**dict.fromkeys(NUMBERS, slope), way=Level.FASTEST),
        entry=entry,
        exit=leave,
        gradient_entry=leave,
        gradient_exit=entry,
        plan=plan,
        gathered_bytes=gathered_bytes,
    )


def made_costs(order: Sequence[int], kinds: Sequence[LayerCost]) -> MeshCosts:
    """The same costs at every price of memory, on two devices."""
    return MeshCosts(
        mesh=Mesh(axes=(MeshAxis(size=2, bandwidth_bytes_per_s=10**9),)),
        order=tuple(order),
        layers=tuple(dict.fromkeys(Level, cost) for cost in kinds),
        handed_over=(HIDDEN,) * len(kinds),
    )
