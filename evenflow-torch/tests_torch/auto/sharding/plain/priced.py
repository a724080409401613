"""A module as one kind of layer on one mesh, under every plain plan."""

import math

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import WholeTensor  # noqa: E402
from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow_torch.auto.deadline import Deadline  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.memory_levels import LevelsProblem, levels_problem  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.plain.restrictions import Restriction, plain_ways, restrictions  # noqa: E402
from evenflow_torch.auto.sharding.plain.solutions import solve_plain  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining, ShardingProgram  # noqa: E402
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan  # noqa: E402
from evenflow_torch.auto.sharding.solution_plan import plan_of  # noqa: E402
from evenflow_torch.auto.sharding.ways import PlainWay  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

TABLE = StrategyTable(rules=torch_rules)
ACCELERATOR = plain_accelerator(flops_per_s=1e12, memory_bytes_per_s=1e12)
NODES = MeshAxis(size=2, bandwidth_bytes_per_s=10**9, latency_ns=500, domains=2, domain_latency_ns=500)


def inside(size: int, bandwidth: int = 10**10) -> MeshAxis:
    """An axis in a node."""
    return MeshAxis(size=size, bandwidth_bytes_per_s=bandwidth, latency_ns=100)


def mesh_of(*axes: MeshAxis) -> Mesh:
    return Mesh(axes=axes, accelerator=ACCELERATOR)


def program_of(module: object, example: object, mesh: Mesh, training: ModuleTraining | None = None) -> ShardingProgram:
    return build(capture(module, example), mesh, training or ModuleTraining(), TABLE)


def alone(program: ShardingProgram) -> LevelsProblem:
    """The problem of one layer with nothing beside it."""
    nothing = WholeTensor(shape=(), item_bytes=1)
    return levels_problem([program], order=[0], longest=[1], handed_over=[nothing])


def restricted(program: ShardingProgram) -> tuple[Restriction, ...]:
    return tuple(restrictions([program], plain_ways(program.mesh), Deadline.after(math.inf)))


def plain_plans(program: ShardingProgram) -> dict[PlainWay, ShardingPlan]:
    """The sharding under every plain plan that there is."""
    found = solve_plain(alone(program), restricted(program), Deadline.after(60))
    return {way: plan_of(program, solutions[0]) for way, solutions in found.solved.items()}


def step_ns(plan: ShardingPlan) -> int:
    assert plan.cost is not None
    return plan.cost.total_ns
