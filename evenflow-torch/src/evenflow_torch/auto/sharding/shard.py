"""Finds the best sharding of a module's operators on a mesh."""

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evenflow.cluster import Mesh
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.solve import Status
from evenflow_torch.auto.sharding.builder import build
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules
from evenflow_torch.auto.sharding.overlapped import OverlapSolver
from evenflow_torch.auto.sharding.pairwise import least_memory
from evenflow_torch.auto.sharding.program import ModuleTraining
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.sharding.solution_plan import plan_of
from evenflow_torch.models.trace.operator_graph import OperatorGraph

if TYPE_CHECKING:
    from torch import nn


def shard(
    module: "nn.Module",
    example_input: Any,
    mesh: Mesh,
    *,
    training: ModuleTraining | None = None,
    memory_limit_bytes: int | None = None,
    time_limit_s: float = 60.0,
) -> ShardingPlan:
    """Return the sharding of `module` on `mesh` with the shortest training step within one device's memory.

    `example_input` is one microbatch for all devices together: a tensor, a tuple of arguments or a dict of keywords.
    Only shapes and types matter, so module and input may be on the meta device. Where the module returns its loss among
    other things, in a mapping, the loss alone is trained on. Raises InputError where the module cannot be traced.
    """
    from evenflow_torch.models.trace.capture import capture

    training = training or ModuleTraining()
    table = StrategyTable(rules=partial(torch_rules, expert_capacity=training.expert_capacity))
    return shard_graph(
        capture(module, example_input),
        mesh,
        table,
        training=training,
        memory_limit_bytes=memory_limit_bytes,
        time_limit_s=time_limit_s,
    )


def shard_graph(
    graph: OperatorGraph,
    mesh: Mesh,
    table: StrategyTable,
    *,
    training: ModuleTraining,
    memory_limit_bytes: int | None = None,
    time_limit_s: float = 60.0,
) -> ShardingPlan:
    """Return the best sharding of a captured graph; `table` remembers strategies from call to call."""
    if memory_limit_bytes is not None and memory_limit_bytes < 1:
        raise InputError(value=memory_limit_bytes, rule=_("must be above zero"), place="memory_limit_bytes")
    started = time.monotonic()
    program = build(graph, mesh, training, table)
    solution = OverlapSolver(program.overlapped).solve(memory_limit=memory_limit_bytes, time_limit_s=time_limit_s)
    smallest = (
        least_memory(program.pairwise, time_limit_s=time_limit_s) if solution.status is Status.INFEASIBLE else None
    )
    return replace(
        plan_of(program, solution),
        memory_limit_bytes=memory_limit_bytes,
        smallest_memory_bytes=smallest,
        solve_seconds=time.monotonic() - started,
    )
