"""Two-level planning: operators sharded inside a stage, stages on submeshes of a cluster.

Read `planner` first: it hands the values of one room to the next, trace <- row, sharding <- stages <- planner.
"""

from evenflow.auto.config_planner import plan_config
from evenflow.auto.fixing.fixed import Fixed
from evenflow.auto.module_planner import plan
from evenflow.auto.planner import AutoPlan
from evenflow.auto.sharding.layer_costs import stage_costs
from evenflow.auto.sharding.mesh_costs import MeshCosts, StageOption
from evenflow.auto.sharding.overlap import Overlap
from evenflow.auto.sharding.program import Training
from evenflow.auto.sharding.shard import shard
from evenflow.auto.sharding.sharding_plan import ShardingPlan
from evenflow.auto.stages.analytic import AnalyticStages
from evenflow.auto.stages.request import TwoLevelRequest
from evenflow.auto.stages.stage_search import plan_stages
from evenflow.cluster import Accelerator, Cluster, Link, Mesh, MeshAxis, Reached
from evenflow.torch_model.parts import Part

__all__ = [
    "Accelerator",
    "AnalyticStages",
    "AutoPlan",
    "Cluster",
    "Fixed",
    "Link",
    "Mesh",
    "MeshAxis",
    "MeshCosts",
    "Overlap",
    "Part",
    "Reached",
    "ShardingPlan",
    "StageOption",
    "Training",
    "TwoLevelRequest",
    "plan",
    "plan_config",
    "plan_stages",
    "shard",
    "stage_costs",
]
