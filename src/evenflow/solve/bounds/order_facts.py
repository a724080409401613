"""What a bound needs of an order of work: what ranks hold at once, and which actions are around its turning points."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Sizes
from evenflow.schedule import (
    FAMILIES,
    Op,
    Schedule,
    fewest_in_group,
    make_schedule,
)
from evenflow.simulate import live_vectors
from evenflow.simulate.compiled import compiled

_SETTLED = 2
"""Microbatches in ranks of the pipeline, or in groups, from which on no rank holds more of them at once."""
_MIXING_TURNS = 200
_MOST_VECTORS = 3
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """What is known of the order of every rank."""

    num_ranks: int
    num_chunks: int
    live: Values
    """Microbatches that a rank holds at once, shape [num_ranks, num_vectors, 2, num_chunks]: with their activation,
    then until the weight gradient. The fullest moment holds as much as any of these vectors; unused ones are 0."""
    turns: NDArray[np.int64]
    """Actions around turning points of a rank's order, shape [num_ranks, 4]: forwards before the first gradient,
    gradients and weight gradients after the last forward, weight gradients after the last gradient; of the chunk that
    has most, but for gradients."""
    tail_rank: int
    splits_backward: bool


@lru_cache(maxsize=16384)
def order_facts(schedule: str, sizes: Sizes) -> OrderFacts:
    """Return the facts about a family's order that hold for all of its group sizes."""
    ranks, chunks, units = sizes.num_ranks, sizes.num_chunks, sizes.num_microbatches
    group = None
    if FAMILIES[schedule].has_groups and chunks > 1 and units > fewest_in_group(schedule, sizes):
        # The smallest groups, without the remainder that makes the first one larger, keep least.
        group = fewest_in_group(schedule, sizes)
        units -= units % group
    if schedule != "f-then-b":
        units = min(units, _SETTLED * (group or ranks))
    return _facts(schedule, ranks, chunks, units, group if group is not None and group < units else None)


@lru_cache(maxsize=4096)
def _facts(schedule: str, ranks: int, chunks: int, units: int, group: int | None) -> OrderFacts:
    order = make_schedule(schedule, num_ranks=ranks, num_chunks=chunks, num_microbatches=units, group_size=group)
    splits = order.splits_backward
    chosen = [_chosen(live_vectors(order, rank), chunks, splits) for rank in range(ranks)]
    live = np.zeros((ranks, max(map(len, chosen)), 2, chunks))
    for rank, vectors in enumerate(chosen):
        live[rank, : len(vectors)] = vectors
    return OrderFacts(
        num_ranks=ranks,
        num_chunks=chunks,
        live=live,
        turns=np.array([_turns(order, rank) for rank in range(ranks)], dtype=np.int64),
        tail_rank=int(order.stage_ranks[-1]),
        splits_backward=splits,
    )


def _chosen(vectors: NDArray[np.int64], chunks: int, splits: bool) -> Values:
    """Return a few vectors of which none says more than the fullest moment, shape [num_vectors, 2, chunks].

    Of many vectors that is the one with the most microbatches, and the mixture that holds most where layers are in the
    chunk with the fewest: a mixture is never more than the largest of what is mixed. What waits for weight gradients,
    which recomputation does not make less, has two of its own.
    """
    both = np.zeros((len(vectors), 2, chunks))
    both[:, 0] = vectors[:, :chunks]
    if splits:
        both[:, 1] = vectors[:, chunks:]
    if len(both) <= _MOST_VECTORS:
        return both
    chosen = []
    for held in [both.sum(axis=1), *([both[:, 1]] if splits else [])]:
        weights = compiled(_mixture)(held)
        chosen += [both[int(np.argmax(held.sum(axis=1)))], np.tensordot(weights, both, axes=1)]
    return np.stack(chosen)


def _mixture(held: Any) -> Any:
    """Return the shares of vectors that together hold much in every chunk: each time the one with most where least is.

    `held` has the shape [num_vectors, num_chunks].
    """
    shares, filled = np.zeros(len(held)), np.zeros(held.shape[1])
    for _ in range(_MIXING_TURNS):
        best = np.argmax(held[:, np.argmin(filled)])
        shares[best] += 1 / _MIXING_TURNS
        filled += held[best]
    return shares


def _turns(order: Schedule, rank: int) -> tuple[int, int, int, int]:
    span = slice(order.rank_starts[rank], order.rank_starts[rank + 1])
    ops, chunks = order.ops[span], order.stage_chunks[order.stages[span]]
    forwards, weights = ops == Op.F, ops == Op.W
    gradients = np.flatnonzero((ops == Op.B) | (ops == Op.I))
    places = np.arange(len(ops))
    first, last, end = gradients[0], places[forwards][-1], gradients[-1]

    def most(chosen: NDArray[np.bool_]) -> int:
        return int(np.bincount(chunks[chosen], minlength=1).max())

    return (
        most(forwards & (places < first)), int((gradients > last).sum()), most(weights & (places > last)),
        most(weights & (places > end)),
    )  # fmt: skip
