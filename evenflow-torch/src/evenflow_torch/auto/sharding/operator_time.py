"""The time of an operator on one device under a strategy: that of its part of the operations and bytes.

Collectives belong to the edges between operators (see `redistribution`), but for those that an operator runs itself.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from evenflow.cluster import PARTIAL, REPLICATE, Mesh, OperatorCost, Placement, WholeTensor, collective_ns, local_bytes
from evenflow.cluster.reached import SLOWED
from evenflow.predict.pricing import under_ns, without_ns
from evenflow.predict.step.optimizer import optimizer_bytes
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy
from evenflow_torch.models.trace.operator_graph import InnerExchange, Operator, Role


def allowed_strategies(
    operator: Operator, strategies: tuple[OperatorStrategy, ...], mesh: Mesh
) -> tuple[OperatorStrategy, ...]:
    """Return the strategies to choose from: all, or, if computation is free, those that split heavy work most."""
    if mesh.accelerator is not None or not operator.cost.flops:
        return strategies
    most = max(work_split(strategy, mesh) for strategy in strategies)
    return tuple(strategy for strategy in strategies if work_split(strategy, mesh) == most)


def work_split(strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Count the parts that the work is split into: over the axes along which any tensor is split."""
    tensors = (*strategy.inputs, *strategy.outputs)
    return math.prod(size for axis, size in enumerate(mesh.shape) if any(placement[axis] >= 0 for placement in tensors))


def compute_ns(operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Return an operator's nanoseconds on one device; 0 for views, inputs and parameters, and without rates."""
    cost = operator.cost
    if mesh.accelerator is None or operator.role is not Role.COMPUTE or not cost.launches:
        return 0
    return round(sum(_part_ns(operator, part, inputs, strategy, mesh) for part in cost.parts or (cost,)))


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
    """Return an operator's own collectives: the mesh axis, the exchange, and its nanoseconds when run alone."""
    tensors = (*inputs, *operator.outputs)
    placed = (*strategy.inputs, *strategy.outputs)
    timed = []
    for axis, exchange in strategy.exchanges:
        placement = placed[exchange.tensor]
        unsplit = (*placement[:axis], REPLICATE, *placement[axis + 1 :])
        size = round(exchange.share * local_bytes(tensors[exchange.tensor], unsplit, mesh.shape))
        timed.append((axis, exchange, collective_ns(mesh.axes[axis], exchange.collective, size)))
    return tuple(timed)


@dataclass(frozen=True, slots=True)
class InnerTime:
    """The time of a collective that an operator runs itself."""

    axis: int
    exchange: InnerExchange
    exposed_ns: int
    """Nanoseconds that it adds to the computation, which also runs slower next to it."""
    hidden_ns: int
    """Nanoseconds of it that run under the computation."""


def inner_times(
    operator: Operator, inputs: tuple[WholeTensor, ...], strategy: OperatorStrategy, mesh: Mesh
) -> tuple[InnerTime, ...]:
    """Return what an operator's own collectives add to its computation.

    Those that hide run under the computation of all parts but the last, n - 1 of n: with messages as long as one
    another that is the longer of message and computation in every step.
    """
    exchanges = inner_exchanges(operator, inputs, strategy, mesh)
    work_ns = compute_ns(operator, inputs, strategy, mesh) if exchanges else 0
    used_ns, times = 0.0, []
    for axis, exchange, time_ns in exchanges:
        left_ns = max(0.0, work_ns * (1 - 1 / mesh.shape[axis]) - used_ns)
        under = math.floor(under_ns(time_ns, left_ns)) if exchange.hides else 0
        used_ns += under / SLOWED
        times.append(InnerTime(axis, exchange, time_ns - math.floor(without_ns(under)), under))
    return tuple(times)


def busy_ns(times: Iterable[InnerTime]) -> int:
    """Return the computation under which an operator's own collectives run, and nothing else can."""
    return math.ceil(sum(time.hidden_ns for time in times) / SLOWED)


def addition_ns(tensor: WholeTensor, placement: Placement, mesh: Mesh) -> int:
    """Return the nanoseconds in which a device adds its part of a tensor to a sum; 0 without an accelerator."""
    if mesh.accelerator is None:
        return 0
    return round(mesh.accelerator.time_ns(flops=0.0, moved_bytes=3.0 * local_bytes(tensor, placement, mesh.shape)))


def update_ns(tensor: WholeTensor, placement: Placement, mesh: Mesh, *, state_bytes: int) -> int:
    """Return the nanoseconds in which the optimizer updates a device's part of a parameter; 0 without rates.

    Its launches do not count: optimizers work on all parameters in a few calls.
    """
    if mesh.accelerator is None:
        return 0
    bytes_per_number = optimizer_bytes(
        state_bytes=state_bytes, gradient_bytes=tensor.item_bytes, weight_bytes=tensor.item_bytes
    )
    numbers = local_bytes(tensor, placement, mesh.shape) / tensor.item_bytes
    return round(mesh.accelerator.time_ns(flops=0.0, moved_bytes=bytes_per_number * numbers, calls=0))


def _sum_split(cost: OperatorCost, strategy: OperatorStrategy, mesh: Mesh) -> int:
    """Count the parts that the sums of a product are split into: over the axes that split what is summed.

    Where it is not known which dimension that is, these are the axes where split inputs give partial sums.
    """
    if cost.summed is not None:
        tensor, dimension = cost.summed
        placement = (*strategy.inputs, *strategy.outputs)[tensor]
        return math.prod(size for size, split in zip(mesh.shape, placement, strict=True) if split == dimension)
    axes = (
        axis
        for axis in range(len(mesh.shape))
        if any(placement[axis] == PARTIAL for placement in strategy.outputs)
        and any(placement[axis] >= 0 for placement in strategy.inputs)
    )
    return math.prod(mesh.shape[axis] for axis in axes)
