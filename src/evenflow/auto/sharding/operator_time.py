"""The time of an operator on one device under a strategy: arithmetic or memory traffic, whichever takes longer.

Collectives belong to the edges between operators: see `redistribution`.
"""

import math

from evenflow.auto.sharding.operator_strategies import OperatorStrategy
from evenflow.auto.trace.operator_graph import Operator, Role
from evenflow.cluster import Mesh, WholeTensor, local_bytes


def allowed_strategies(
    operator: Operator, strategies: tuple[OperatorStrategy, ...], mesh: Mesh
) -> tuple[OperatorStrategy, ...]:
    """Return all strategies; where computation is free, only those that split heavy operators over most devices."""
    if mesh.accelerator is not None or not operator.flops:
        return strategies
    most = max(work_split(one, mesh) for one in strategies)
    return tuple(one for one in strategies if work_split(one, mesh) == most)


def work_split(strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Count the parts that the work is split into: over the axes along which any tensor is split."""
    tensors = (*strategy.inputs, *strategy.outputs)
    return math.prod(size for axis, size in enumerate(mesh.shape) if any(one[axis] >= 0 for one in tensors))


def compute_ns(operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Nanoseconds on one device; nothing for views, for what is given, and without an accelerator."""
    if mesh.accelerator is None or operator.role is not Role.COMPUTE:
        return 0
    tensors = (*zip(inputs, strategy.inputs, strict=True), *zip(operator.outputs, strategy.outputs, strict=True))
    traffic = sum(local_bytes(tensor, placement, mesh.shape) for tensor, placement in tensors)
    return round(mesh.accelerator.operator_ns(flops=operator.flops / work_split(strategy, mesh), moved_bytes=traffic))
