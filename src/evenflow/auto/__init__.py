"""Two-level planning: operators sharded inside a stage, stages on submeshes of a cluster."""

from evenflow.auto.cluster import Cluster, Link
from evenflow.auto.layer_costs import LayerKind, StageCosts, StageOption, stage_costs
from evenflow.auto.mesh import Accelerator, Mesh, MeshAxis
from evenflow.auto.planner import AutoPlan, plan
from evenflow.auto.sharding import shard
from evenflow.auto.sharding_plan import ShardingPlan
from evenflow.auto.sharding_program import Training

__all__ = [
    "Accelerator",
    "AutoPlan",
    "Cluster",
    "LayerKind",
    "Link",
    "Mesh",
    "MeshAxis",
    "ShardingPlan",
    "StageCosts",
    "StageOption",
    "Training",
    "plan",
    "shard",
    "stage_costs",
]
