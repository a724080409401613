"""Two-level planning: operators sharded inside a stage, stages on submeshes of a cluster.

Read `planner` first: it hands the values of one room to the next, trace <- row, sharding <- stages <- planner.
"""

from evenflow.cluster import Accelerator, Cluster, Link, Mesh, MeshAxis, Reached
from evenflow_torch.auto.config_planner import plan_config
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.module_planner import plan
from evenflow_torch.auto.planner import AutoPlan
from evenflow_torch.auto.sharding.layer_costs import stage_costs
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts, StageOption
from evenflow_torch.auto.sharding.overlap import Overlap
from evenflow_torch.auto.sharding.program import ModuleTraining as Training
from evenflow_torch.auto.sharding.shard import shard
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.stages.analytic import AnalyticStages
from evenflow_torch.auto.stages.request import TwoLevelRequest
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.models.parts import Part

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
