"""Clusters of devices, meshes, accelerators, and the layouts of tensors on them: values only."""

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.cluster import Cluster, Link, Submesh, assign, parse_mesh, submeshes
from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.data_sheets import A100, accelerator_named
from evenflow.cluster.dtypes import DTYPES, Dtype, parse_dtype
from evenflow.cluster.layout import REPLICATED, Box, TensorLayout, shape_of
from evenflow.cluster.logical_mesh import FEWEST_AXES, MOST_AXES, logical_meshes, mesh_axis
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.mesh_plan import AttentionOnMesh, MeshPlan, Product, RowExchange, StageOnMesh
from evenflow.cluster.operator_cost import OperatorCost
from evenflow.cluster.placement import (
    PARTIAL,
    REPLICATE,
    Placement,
    WholeTensor,
    blocks_of,
    code,
    describe,
    digits,
    dimension_of,
    is_even,
    is_offered,
    local_bytes,
    parse_code,
    placement_of,
    placements,
    split_along,
)
from evenflow.cluster.reached import Reached
from evenflow.cluster.resharding import BoxMessage, ReshardingPlan, plan_resharding

__all__ = [
    "A100",
    "DTYPES",
    "FEWEST_AXES",
    "MOST_AXES",
    "PARTIAL",
    "REPLICATE",
    "REPLICATED",
    "Accelerator",
    "AttentionOnMesh",
    "Box",
    "BoxMessage",
    "Cluster",
    "Collective",
    "Dtype",
    "Link",
    "Mesh",
    "MeshAxis",
    "MeshPlan",
    "OperatorCost",
    "Placement",
    "Product",
    "Reached",
    "ReshardingPlan",
    "RowExchange",
    "StageOnMesh",
    "Submesh",
    "TensorLayout",
    "WholeTensor",
    "accelerator_named",
    "assign",
    "blocks_of",
    "code",
    "collective_ns",
    "describe",
    "digits",
    "dimension_of",
    "is_even",
    "is_offered",
    "local_bytes",
    "logical_meshes",
    "mesh_axis",
    "parse_code",
    "parse_dtype",
    "parse_mesh",
    "placement_of",
    "placements",
    "plan_resharding",
    "shape_of",
    "split_along",
    "submeshes",
]
