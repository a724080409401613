"""The computation of experts on rows sorted by expert: a loop over the experts that have rows.

rows [rows, hidden] --up--> inner [rows, 2, width] --gate--> activated [rows, width] --down--> [rows, hidden]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evenflow_torch.models.experts.gates import gate_gradient, gate_named


@dataclass(frozen=True, slots=True)
class Matrices:
    """The parameters of some experts, or of a part of their width."""

    up: Tensor
    """[experts, *inner, hidden], or [experts, hidden, *inner] where transposed; inner is the shape of the first product
    of a row: (2, width), (width, 2) where gate and up alternate, or (width,) without a gate."""
    up_bias: Tensor | None
    """[experts, *inner]"""
    down: Tensor
    """[experts, hidden, width], or [experts, width, hidden] where transposed."""
    down_bias: Tensor | None
    """[experts, hidden]"""
    gate: str
    transposed: bool

    @property
    def inner(self) -> tuple[int, ...]:
        """The shape of the first product of a row."""
        return tuple(self.up.shape[2:] if self.transposed else self.up.shape[1:-1])

    @property
    def width(self) -> int:
        """The width of an expert."""
        return self.down.shape[1 if self.transposed else 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the backward needs of a forward."""

    rows: Tensor
    inner: Tensor
    activated: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGradients:
    """The gradients of a forward's inputs, and what the gradients of its matrices follow from."""

    rows: Tensor
    weights: Tensor
    """[rows]"""
    inner: Tensor
    """Of what the gate takes."""
    weighed: Tensor
    """[rows, hidden]: of the second product."""


def forward(rows: Tensor, counts: Sequence[int], experts: Matrices) -> tuple[Tensor, Kept]:
    """Return the result of every row, and what the backward needs; `counts` are the rows of each expert.

    Rows behind those of all experts belong to none; their results are zero.
    """
    up, down = _flat(experts)
    inner = rows.new_zeros(len(rows), up.shape[2])
    for expert, own in spans(counts):
        torch.mm(rows[own], up[expert], out=inner[own])
        if experts.up_bias is not None:
            inner[own] += experts.up_bias[expert].flatten()
    activated = gate_named(experts.gate)(inner)
    result = torch.zeros_like(rows)
    for expert, own in spans(counts):
        torch.mm(activated[own], down[expert], out=result[own])
        if experts.down_bias is not None:
            result[own] += experts.down_bias[expert]
    return result, Kept(rows=rows, inner=inner.unflatten(1, experts.inner), activated=activated)


def input_gradients(
    gradient: Tensor, weights: Tensor, inner: Tensor, activated: Tensor, counts: Sequence[int], experts: Matrices
) -> InputGradients:
    """Return the input gradients of a forward whose results, multiplied by `weights` [rows], receive `gradient`."""
    up, down = _flat(experts)
    of_activated = torch.zeros_like(activated)
    for expert, own in spans(counts):
        torch.mm(gradient[own], down[expert].T, out=of_activated[own])
    of_weights = (of_activated * activated).sum(1, dtype=weights.dtype)
    if experts.down_bias is not None:
        for expert, own in spans(counts):
            of_weights[own] += (gradient[own] * experts.down_bias[expert]).sum(1, dtype=weights.dtype)
    of_activated = (of_activated * weights[:, None]).to(activated.dtype)
    of_inner = gate_gradient(experts.gate, inner.flatten(1), of_activated)
    of_rows = torch.zeros_like(gradient)
    for expert, own in spans(counts):
        torch.mm(of_inner[own], up[expert].T, out=of_rows[own])
    return InputGradients(
        rows=of_rows,
        weights=of_weights,
        inner=of_inner.view_as(inner),
        weighed=(gradient * weights[:, None]).to(gradient.dtype),
    )


def weight_gradients(
    rows: Tensor, of_inner: Tensor, activated: Tensor, weighed: Tensor, counts: Sequence[int], *, transposed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the matrix and the bias of both products, as `Matrices` has them."""
    first, second = _matrices(rows, of_inner.flatten(1), counts), _matrices(activated, weighed, counts)
    if not transposed:
        first, second = first.mT, second.mT
    shape = (*first.shape[:2], *of_inner.shape[1:]) if transposed else (len(counts), *of_inner.shape[1:], -1)
    of_biases = _sums(of_inner.flatten(1), counts).view(len(counts), *of_inner.shape[1:]), _sums(weighed, counts)
    return first.reshape(shape), of_biases[0], second.contiguous(), of_biases[1]


def _matrices(left: Tensor, right: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the sum over the rows of each expert of the products of their features: [experts, left, right]."""
    result = left.new_zeros(len(counts), left.shape[1], right.shape[1])
    for expert, own in spans(counts):
        torch.mm(left[own].T, right[own], out=result[expert])
    return result


def _flat(experts: Matrices) -> tuple[Tensor, Tensor]:
    """Return both matrices of each expert as [depth, columns]."""
    if experts.transposed:
        return experts.up.flatten(2), experts.down
    return experts.up.flatten(1, -2).mT, experts.down.mT


def spans(counts: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Yield each expert that has rows, with the slice of its rows."""
    end = 0
    for expert, count in enumerate(counts):
        start, end = end, end + count
        if count:
            yield expert, slice(start, end)


def _sums(values: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the sum of the rows of each expert."""
    sums = values.new_zeros(len(counts), values.shape[1])
    for expert, own in spans(counts):
        sums[expert] = values[own].sum(0)
    return sums
