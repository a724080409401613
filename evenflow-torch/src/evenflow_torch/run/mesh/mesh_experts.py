"""Experts on several devices: each axis of the mesh splits tokens, experts or their width, as the plan says.

    tokens and experts split    rows of tokens go to the devices of their experts, all-to-all, and their results back;
                                in the backward so do the gradients of the results, and back those of the rows
    experts split               a device computes the rows of its own experts: a partial sum
    width split                 every device computes a part of every row: a partial sum
    tokens split                a device computes its own tokens

Devices exchange as many rows as there are. With a capacity each of them drops what exceeds it among its own tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from evenflow.cluster import REPLICATED, Product
from evenflow_torch.models.experts import products
from evenflow_torch.models.experts.capacity import within_capacity
from evenflow_torch.models.experts.library import GivenExperts, run_operator
from evenflow_torch.models.experts.operator import dealt, undealt
from evenflow_torch.models.experts.products import Matrices

EXPERTS, WIDTH = 0, 1
"""Dimensions in `Product.experts`."""


def set_product(module: Any, product: Product, capacity: float | None) -> None:
    """Tell a module of experts how the plan splits it, and how many shares of an equal load an expert takes at most."""
    module.__dict__["_product_on_mesh"] = product, capacity


def compute_experts(module: Any, inputs: GivenExperts) -> Tensor:
    """Compute experts whose tensors are DTensors; others as one operator."""
    if not isinstance(inputs.up, DTensor) or not isinstance(inputs.hidden, DTensor):
        return run_operator(module, inputs)
    return _Split(inputs, *module.__dict__.get("_product_on_mesh", (None, None))).result()


class _Split:
    """Experts whose tokens, matrices or widths the devices of every mesh axis share."""

    def __init__(self, inputs: GivenExperts, product: Product | None, capacity: float | None) -> None:
        assert isinstance(inputs.hidden, DTensor)
        self._inputs, self._mesh, self._capacity = inputs, inputs.hidden.device_mesh, capacity
        if product is None or product.experts is None:  # tokens stay split as they are, and matrices are whole
            reads = [0 if placement == Shard(0) else REPLICATED for placement in inputs.hidden.placements]
            self._experts: Sequence[int] = [REPLICATED] * self._mesh.ndim
        else:
            reads, self._experts = list(product.reads), product.experts
        self._by_token = [0 if dimension == 0 else REPLICATED for dimension in reads]

    def result(self) -> Tensor:
        inputs = self._inputs
        tokens = [Replicate() if dimension == REPLICATED else Shard(0) for dimension in self._by_token]
        sums = [Partial() if self._adds(axis) else own for axis, own in enumerate(tokens)]
        hidden, index, weights = (
            self._local(tensor, tokens, sums) for tensor in (inputs.hidden, inputs.index, inputs.weights)
        )
        if self._capacity is not None:
            index = within_capacity(index, weights, inputs.up.shape[0], self._capacity)
        up, up_bias = self._first()
        down = self._matrix(inputs.down, 1 if inputs.transposed else 2)
        down_bias = None if inputs.down_bias is None else self._matrix(inputs.down_bias, None)
        if down_bias is not None and any(
            dimension == WIDTH and self._coordinate(axis) for axis, dimension in enumerate(self._experts)
        ):
            down_bias = 0 * down_bias  # one part of the width adds it
        matrices = Matrices(up, up_bias, down, down_bias, inputs.gate, inputs.transposed)
        owners = [
            _Owners(
                group=self._mesh.get_group(axis) if self._by_token[axis] != REPLICATED else None,
                size=self._mesh.size(axis),
                coordinate=self._coordinate(axis),
            )
            for axis, dimension in enumerate(self._experts)
            if dimension == EXPERTS
        ]
        own: Tensor = _LocalExperts.apply(hidden, index, weights, up, up_bias, down, down_bias, matrices, owners)
        return DTensor.from_local(own, self._mesh, sums, grad_placements=tokens)

    def _adds(self, axis: int) -> bool:
        """Whether results of an axis are parts of a sum: its devices have all tokens, but not all experts."""
        return self._by_token[axis] == REPLICATED and self._experts[axis] != REPLICATED

    def _coordinate(self, axis: int) -> int:
        return self._mesh.get_local_rank(axis)

    def _local(self, tensor: Tensor, wanted: Sequence[Placement], gradients: Sequence[Placement]) -> Tensor:
        if not isinstance(tensor, DTensor):
            tensor = DTensor.from_local(tensor, self._mesh, [Replicate()] * self._mesh.ndim)
        local: Tensor = tensor.redistribute(placements=wanted).to_local(grad_placements=gradients)
        return local

    def _matrix(self, tensor: Tensor, width: int | None) -> Tensor:
        """Return this device's part of a parameter, whose dimension `width` is that of the experts."""
        wanted: list[Placement] = []
        gradients: list[Placement] = []
        for axis, dimension in enumerate(self._experts):
            if dimension == EXPERTS:
                wanted.append(Shard(0))
                gradients.append(Shard(0))
            elif dimension == WIDTH and width is not None:
                wanted.append(Shard(width))
                gradients.append(Shard(width))
            else:
                wanted.append(Replicate())
                is_same = dimension != WIDTH and self._by_token[axis] == REPLICATED
                gradients.append(Replicate() if is_same else Partial())
        return self._local(tensor, wanted, gradients)

    def _first(self) -> tuple[Tensor, Tensor | None]:
        """Return the part of the first matrix and its bias, [experts, *inner, …].

        A part of the width is a part of both halves, so it is cut out of the whole.
        """
        inputs = self._inputs
        up = self._matrix(inputs.up, None)
        up_bias = None if inputs.up_bias is None else self._matrix(inputs.up_bias, None)
        up, up_bias = inputs.unflattened(up, up_bias)
        at = inputs.halves.index(-1)
        for axis, dimension in enumerate(self._experts):
            if dimension == WIDTH:
                up = self._own(up, at + (2 if inputs.transposed else 1), axis)
                up_bias = None if up_bias is None else self._own(up_bias, at + 1, axis)
        return up, up_bias

    def _own(self, tensor: Tensor, dimension: int, axis: int) -> Tensor:
        size = tensor.shape[dimension] // self._mesh.size(axis)
        return tensor.narrow(dimension, self._coordinate(axis) * size, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owners:
    """The devices of a mesh axis, which have equally many experts each."""

    group: dist.ProcessGroup | None
    """Those that exchange rows; None where all of them have all rows."""
    size: int
    coordinate: int


@dataclass(slots=True)
class _Way:
    """The way of rows to the experts of this device, sorted by expert in the end, and back."""

    counts: list[int] = field(default_factory=list)
    """Rows of each expert of this device."""
    _steps: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = field(default_factory=list)

    def go(self, rows: Tensor) -> Tensor:
        """Bring one row for each choice of this device's tokens to the experts that were chosen."""
        for there, _ in self._steps:
            rows = there(rows)
        return rows

    def back(self, rows: Tensor) -> Tensor:
        """Bring rows of experts back to where they came from; what did not go is zero."""
        for _, here in reversed(self._steps):
            rows = here(rows)
        return rows

    def add(self, there: Callable[[Tensor], Tensor], here: Callable[[Tensor], Tensor]) -> None:
        """Add a step of the way there, and its inverse for the way back."""
        self._steps.append((there, here))


def _way(experts: Tensor, num_experts: int, owners: Sequence[_Owners]) -> _Way:
    """Return the way that brings rows to the devices of their `experts`, each of which has `num_experts` of them."""
    way = _Way()
    total = num_experts
    for owners_of_axis in owners:
        total *= owners_of_axis.size
    experts = _kept(way, experts < total, experts)
    for owners_of_axis in owners:
        total //= owners_of_axis.size
        owner = experts // total
        if owners_of_axis.group is None:
            experts = _kept(way, owner == owners_of_axis.coordinate, experts)
        else:
            experts = _exchanged(way, owner, owners_of_axis, experts)
        experts = experts % total
    order, way.counts = dealt(experts, num_experts)
    way.add(lambda rows: rows[order], lambda rows: undealt(rows, order))
    return way


def _kept(way: _Way, mask: Tensor, experts: Tensor) -> Tensor:
    (kept,) = mask.nonzero(as_tuple=True)
    count = len(mask)

    def here(rows: Tensor) -> Tensor:
        result = rows.new_zeros(count, *rows.shape[1:])
        result[kept] = rows
        return result

    way.add(lambda rows: rows[kept], here)
    return experts[kept]


def _exchanged(way: _Way, owner: Tensor, owners: _Owners, experts: Tensor) -> Tensor:
    order, sent = dealt(owner, owners.size)
    counts = torch.tensor(sent, device=owner.device)
    arriving = torch.empty_like(counts)
    dist.all_to_all_single(arriving, counts, group=owners.group)
    received = arriving.tolist()

    def exchange(rows: Tensor, sizes: list[int], others: list[int]) -> Tensor:
        result = rows.new_empty(sum(others), *rows.shape[1:])
        dist.all_to_all_single(result, rows.contiguous(), others, sizes, group=owners.group)
        return result

    def there(rows: Tensor) -> Tensor:
        return exchange(rows[order], sent, received)

    way.add(there, lambda rows: undealt(exchange(rows, received, sent), order))
    return there(experts)


class _LocalExperts(torch.autograd.Function):
    """This device's part of experts; rows go all-to-all where their experts are elsewhere."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        index: Tensor,
        weights: Tensor,
        up: Tensor,
        up_bias: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        matrices: Matrices,
        owners: Sequence[_Owners],
    ) -> Tensor:
        chosen = index.shape[1]
        way = _way(index.flatten(), up.shape[0], owners)
        rows = way.go(hidden.repeat_interleave(chosen, 0))
        weights_there = way.go(weights.flatten())
        results, kept = products.forward(rows, way.counts, matrices)
        back = way.back(results) * weights.reshape(-1, 1)
        ctx.way, ctx.chosen = way, chosen
        ctx.settings = matrices.gate, matrices.transposed
        ctx.save_for_backward(weights_there, kept.rows, kept.inner, kept.activated, up, up_bias, down, down_bias)
        return back.view(*index.shape, -1).sum(1).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        way, (gate, transposed) = ctx.way, ctx.settings
        weights, rows, inner, activated, up, up_bias, down, down_bias = ctx.saved_tensors
        matrices = Matrices(up, up_bias, down, down_bias, gate, transposed)
        arrived = way.go(gradient.repeat_interleave(ctx.chosen, 0))
        input_gradients = products.input_gradients(arrived, weights, inner, activated, way.counts, matrices)
        of_up, of_up_bias, of_down, of_down_bias = products.weight_gradients(
            rows, input_gradients.inner, activated, input_gradients.weighed, way.counts, transposed=transposed
        )
        shape = len(gradient), ctx.chosen
        return (
            way.back(input_gradients.rows).view(*shape, -1).sum(1),
            None,
            way.back(input_gradients.weights).view(shape),
            of_up,
            None if up_bias is None else of_up_bias,
            of_down,
            None if down_bias is None else of_down_bias,
            None,
            None,
        )
