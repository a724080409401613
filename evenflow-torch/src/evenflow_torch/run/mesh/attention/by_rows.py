"""Attention over devices that each hold different rows of a sequence: queries, and as many keys and values.

    gathered    keys and values of all devices come first; their gradients are summed at the end
    balanced    likewise, after causal rows have been exchanged so that all devices have as much to compute
    ring        a block of keys and values is on its way to the next device while this one computes with it; in the
                backward its gradients follow one step later, and are at home after as many steps as there are devices

Each pass may go its own way: what is kept for the backward lies as the rows came.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from evenflow.cluster import RowExchange
from evenflow_torch.run.mesh.attention import kernels
from evenflow_torch.run.mesh.attention.kernels import Scores
from evenflow_torch.run.mesh.attention.row_messages import RowMessages
from evenflow_torch.run.mesh.attention.row_pieces import RowPiece, RowSpan, pieces, spans_of

LENGTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRows:
    """One attention: how its devices share it."""

    messages: RowMessages
    rows: RowExchange
    backward_rows: RowExchange
    is_causal: bool
    """Then there are as many rows as keys."""
    scale: float
    mask: Tensor | None
    """[..., own rows or 1, all keys]."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the result for this device's rows of the query; keys and values are its own too."""
        result: Tensor = _ByRows.apply(query, key, value, self)
        return result

    def is_mirrored(self, rows: RowExchange) -> bool:
        """Tell whether rows are exchanged first."""
        return self.is_causal and rows is not RowExchange.GATHERED

    def steps(self, rows: RowExchange, num_rows: int, num_keys: int) -> Iterator[list[RowPiece]]:
        """Yield what is computed with each block of keys, the own one first; with all of them at once if gathered."""
        here, count, mirrored = self.messages.device, self.messages.num_devices, self.is_mirrored(rows)
        own = spans_of(here, count, num_rows, is_mirrored=mirrored)
        if rows is not RowExchange.RING:
            yield list(pieces(own, (RowSpan(begin=0, end=count * num_keys, at=0),), is_causal=self.is_causal))
            return
        for step in range(count):
            keys = spans_of((here - step) % count, count, num_keys, is_mirrored=mirrored)
            yield list(pieces(own, keys, is_causal=self.is_causal))

    def scores(self, piece: RowPiece) -> Scores:
        """Return how a piece's scores become weights."""
        mask = self.mask
        if mask is not None:
            rows = piece.rows if mask.shape[-2] > 1 else slice(None)
            last = piece.first_key + piece.keys.stop - piece.keys.start
            columns = slice(piece.first_key, last) if mask.shape[-1] > 1 else slice(None)
            mask = mask[..., rows, columns]
        return Scores(scale=self.scale, is_causal=piece.is_causal, mask=mask)


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, how: ByRows) -> Tensor:
        result, sums = _forward(query, key, value, how)
        context.save_for_backward(query, key, value, result, sums)
        context.how = how
        return result

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, result, sums = context.saved_tensors
        return (*_backward(gradient, query, key, value, result, sums, context.how), None)


def _forward(query: Tensor, key: Tensor, value: Tensor, how: ByRows) -> tuple[Tensor, Tensor]:
    messages, is_mirrored = how.messages, how.is_mirrored(how.rows)
    num_rows, num_keys = query.shape[LENGTH], key.shape[LENGTH]
    blocks = [key, value]
    if how.rows is not RowExchange.RING:
        blocks = [messages.gathered(block) for block in blocks]
    if is_mirrored:
        query, *others = messages.mirrored(query, *(blocks if how.rows is RowExchange.RING else ()))
        blocks = others or blocks
    kind = kernels.precise(query.dtype)
    result = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=kind, device=query.device)
    sums = torch.full(query.shape[:-1], -torch.inf, dtype=kind, device=query.device)
    steps = list(how.steps(how.rows, num_rows, num_keys))
    for step, those in enumerate(steps):
        coming = messages.to_next(blocks) if step + 1 < len(steps) else None
        for piece in those:
            rows, keys = (slice(None), slice(None), piece.rows), (slice(None), slice(None), piece.keys)
            result_and_sums = kernels.forward(query[rows], blocks[0][keys], blocks[1][keys], how.scores(piece))
            result[rows], sums[rows] = kernels.merge(result[rows], sums[rows], *result_and_sums)
        blocks = blocks if coming is None else coming.arrived()
    result = result.to(query.dtype)
    if is_mirrored:
        result, sums = messages.mirrored(result, sums)
    return result, sums


def _backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: Tensor, how: ByRows
) -> tuple[Tensor, Tensor, Tensor]:
    messages, goes_around = how.messages, how.backward_rows is RowExchange.RING
    is_mirrored = how.is_mirrored(how.backward_rows)
    num_rows, num_keys = query.shape[LENGTH], key.shape[LENGTH]
    blocks = [key, value] if goes_around else [messages.gathered(tensor) for tensor in (key, value)]
    if is_mirrored:
        own = [query, result, gradient, sums, *(blocks if goes_around else ())]
        query, result, gradient, sums, *others = messages.mirrored(*own)
        blocks = others or blocks
    of_query = torch.zeros_like(query, dtype=kernels.precise(query.dtype))
    steps = list(how.steps(how.backward_rows, num_rows, num_keys))
    following = None
    for step, those in enumerate(steps):
        coming = messages.to_next(blocks) if step + 1 < len(steps) else None
        of_blocks = [torch.zeros_like(tensor, dtype=kernels.precise(tensor.dtype)) for tensor in blocks]
        for piece in those:
            rows, keys = (slice(None), slice(None), piece.rows), (slice(None), slice(None), piece.keys)
            of_rows, *of_keys = kernels.backward(
                gradient[rows], query[rows], blocks[0][keys], blocks[1][keys], result[rows], sums[rows],
                how.scores(piece),
            )  # fmt: skip
            of_query[rows] += of_rows
            for whole, part in zip(of_blocks, of_keys, strict=True):
                whole[keys] += part
        if following is not None:  # what the devices before found for the same block
            of_blocks = [own + other for own, other in zip(of_blocks, following.arrived(), strict=True)]
        of_blocks = [tensor.to(key.dtype) for tensor in of_blocks]
        following = messages.to_next(of_blocks) if goes_around else None
        blocks = blocks if coming is None else coming.arrived()
    of_blocks = [messages.summed(tensor) for tensor in of_blocks] if following is None else following.arrived()
    of_query = of_query.to(query.dtype)
    if is_mirrored:
        of_query, *others = messages.mirrored(of_query, *(of_blocks if goes_around else ()))
        of_blocks = others or of_blocks
    return of_query, of_blocks[0], of_blocks[1]
