"""The time of an operator on one device under a strategy: that of the device's part of its operations and bytes.

Collectives belong to the edges between operators (see `redistribution`), but for those that an operator runs itself.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from evenflow.auto.sharding.operator_strategies import OperatorStrategy
from evenflow.auto.trace.operator_graph import InnerExchange, Operator, Role
from evenflow.cluster import PARTIAL, REPLICATE, Mesh, OperatorCost, Placement, WholeTensor, collective_ns, local_bytes
from evenflow.predict.pricing import SLOWED, under_ns, without_ns
from evenflow.predict.step.optimizer import optimizer_bytes


def allowed_strategies(
    operator: Operator, strategies: tuple[OperatorStrategy, ...], mesh: Mesh
) -> tuple[OperatorStrategy, ...]:
    """Return all strategies; where computation is free, only those that split heavy operators over most devices."""
    if mesh.accelerator is not None or not operator.cost.flops:
        return strategies
    most = max(work_split(one, mesh) for one in strategies)
    return tuple(one for one in strategies if work_split(one, mesh) == most)


def work_split(strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Count the parts that the work is split into: over the axes along which any tensor is split."""
    tensors = (*strategy.inputs, *strategy.outputs)
    return math.prod(size for axis, size in enumerate(mesh.shape) if any(one[axis] >= 0 for one in tensors))


def compute_ns(operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Nanoseconds on one device; nothing for views, for what is given, and without an accelerator."""
    cost = operator.cost
    if mesh.accelerator is None or operator.role is not Role.COMPUTE or not cost.launches:
        return 0
    return round(sum(_part_ns(operator, one, inputs, strategy, mesh) for one in cost.parts or (cost,)))


def _part_ns(
    operator: Operator, cost: OperatorCost, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh
) -> float:
    assert mesh.accelerator is not None
    placed = zip((*inputs, *operator.outputs), (*strategy.inputs, *strategy.outputs), cost.tensor_bytes, strict=True)
    moved_bytes = sum(
        moved * local_bytes(tensor, placement, mesh.shape) / tensor.size_bytes
        for tensor, placement, moved in placed
        if moved
    )
    if not cost.flops:  # of products it is mostly matrices, of which every device has its equal share
        moved_bytes *= strategy.work
    return cost.time_ns(
        mesh.accelerator,
        work_parts=work_split(strategy, mesh) / strategy.work,
        sum_parts=_sum_split(cost, strategy, mesh),
        moved_bytes=moved_bytes,
    )


def inner_exchanges(
    operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh
) -> tuple[tuple[int, InnerExchange, int], ...]:
    """Return the collectives that an operator runs itself: mesh axis, exchange, and nanoseconds of it alone."""
    tensors = (*inputs, *operator.outputs)
    placed = (*strategy.inputs, *strategy.outputs)
    found = []
    for axis, one in strategy.exchanges:
        where = placed[one.tensor]
        unsplit = (*where[:axis], REPLICATE, *where[axis + 1 :])
        size = round(one.share * local_bytes(tensors[one.tensor], unsplit, mesh.shape))
        found.append((axis, one, collective_ns(mesh.axes[axis], one.collective, size)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class InnerTime:
    """A collective that an operator runs itself."""

    axis: int
    exchange: InnerExchange
    exposed_ns: int
    """What it adds to the computation, which is slower beside it."""
    hidden_ns: int
    """What of it runs under the computation."""


def inner_times(
    operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh
) -> tuple[InnerTime, ...]:
    """Return what an operator's own collectives add to its computation.

    Those that hide run under the computation of all parts but the last, n - 1 of n: with messages as long as one
    another that is the longer of message and computation in every step.
    """
    exchanges = inner_exchanges(operator, inputs, strategy, mesh)
    work_ns = compute_ns(operator, inputs, strategy, mesh) if exchanges else 0
    used_ns, found = 0.0, []
    for axis, one, time_ns in exchanges:
        left_ns = max(0.0, work_ns * (1 - 1 / mesh.shape[axis]) - used_ns)
        under = math.floor(under_ns(time_ns, left_ns)) if one.hides else 0
        used_ns += under / SLOWED
        found.append(InnerTime(axis, one, time_ns - math.floor(without_ns(under)), under))
    return tuple(found)


def busy_ns(times: Iterable[InnerTime]) -> int:
    """Return the computation under which an operator's own collectives run, and nothing else can."""
    return math.ceil(sum(one.hidden_ns for one in times) / SLOWED)


def addition_ns(tensor: WholeTensor, placement: Placement, mesh: Mesh) -> int:
    """Nanoseconds in which a device adds its part of a tensor to what is there; nothing without an accelerator."""
    if mesh.accelerator is None:
        return 0
    return round(mesh.accelerator.time_ns(flops=0.0, moved_bytes=3.0 * local_bytes(tensor, placement, mesh.shape)))


def update_ns(tensor: WholeTensor, placement: Placement, mesh: Mesh, *, state_bytes: int) -> int:
    """Nanoseconds in which the optimizer updates a device's part of a parameter; nothing without an accelerator.

    Its launches do not count: optimizers work on all parameters in a few calls.
    """
    if mesh.accelerator is None:
        return 0
    each = optimizer_bytes(state_bytes=state_bytes, gradient_bytes=tensor.item_bytes, weight_bytes=tensor.item_bytes)
    numbers = local_bytes(tensor, placement, mesh.shape) / tensor.item_bytes
    return round(mesh.accelerator.time_ns(flops=0.0, moved_bytes=each * numbers, calls=0))


def _sum_split(cost: OperatorCost, strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Count the parts that the sums of a product are split into: over the axes that split what is summed.

    Where it is not known which dimension that is, these are the axes where split inputs give partial sums.
    """
    if cost.summed is not None:
        tensor, dimension = cost.summed
        where = (*strategy.inputs, *strategy.outputs)[tensor]
        return math.prod(size for size, one in zip(mesh.shape, where, strict=True) if one == dimension)
    axes = (
        axis
        for axis in range(len(mesh.shape))
        if any(one[axis] == PARTIAL for one in strategy.outputs) and any(one[axis] >= 0 for one in strategy.inputs)
    )
    return math.prod(mesh.shape[axis] for axis in axes)
