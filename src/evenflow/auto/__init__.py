"""Two-level planning: operators sharded inside a stage, stages on submeshes of a cluster."""

from evenflow.auto.layer_costs import LayerKind, StageCosts, StageOption, stage_costs
from evenflow.auto.mesh import Accelerator, Mesh, MeshAxis
from evenflow.auto.sharding import shard
from evenflow.auto.sharding_plan import ShardingPlan
from evenflow.auto.sharding_program import Training

__all__ = [
    "Accelerator",
    "LayerKind",
    "Mesh",
    "MeshAxis",
    "ShardingPlan",
    "StageCosts",
    "StageOption",
    "Training",
    "shard",
    "stage_costs",
]
