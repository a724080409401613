"""The design of dry runs: how many layers of which recompute kind each rank gets, so that peaks tell the memory well.

The peaks of the middle ranks are the rows of a linear system (see `equations`); how far errors in them are magnified
is the condition number of its matrix. The search lowers it by exchanges: it starts from random designs, takes one rank
after the other, tries to give layers to another rank of the round, to change the kind of layers, and to trade with the
other rank, and keeps what is best, until nothing helps.
[Meyer and Nachtsheim, The coordinate-exchange algorithm, Technometrics 37, 1995]
"""

import itertools
import random
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenflow.model import COMM, SELECT

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]

_MOST_STARTS = 50
_ENOUGH_TRIALS = 60_000
"""No new start after so many moves tried."""
_MOST_TRIALS = 250_000
"""An end to the first start, where there are hundreds of ranks."""
_SINGULAR = 1e9
"""Above any condition number of a matrix that counts as regular."""
_TINY = 1e-9
"""Eigenvalues below this share of the largest count as zero."""
_LEAST_GAIN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignTask:
    """Sizes that a design must have."""

    num_rounds: int
    num_ranks: int
    num_layers: int
    kinds: tuple[str, ...]
    """Recompute kinds, `none` among them."""

    @property
    def most_layers(self) -> int:
        """Most layers of a rank: twice those of an even one, so that a dry run is no strange model."""
        twice_even = 2 * -(-self.num_layers // self.num_ranks)
        return min(twice_even, self.num_layers - self.num_ranks + 1)

    @property
    def scales(self) -> FloatArray:
        """Weight of each unknown (constant, parameter, activation by kind) in the peak of an even middle rank."""
        even = self.num_layers / self.num_ranks
        return np.array([1.0, 1 / even] + [2 / (even * self.num_ranks)] * len(self.kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moves:
    """Layers by kind that a rank and its partner have after each move, ``[move][kind]``."""

    own: IntArray
    partner: IntArray
    partners: IntArray


def find_design(task: DesignTask) -> IntArray:
    """Return the layers ``[round][rank][kind]`` of the best design found; equal tasks give equal designs.

    Every rank has a layer or more, and none has layers under select alone beside layers under comm alone, which
    MindFormers cannot express. Needs at least 4 ranks and more layers than ranks (see `dry_run_guide`).
    """
    best, best_number, trials = None, np.inf, 0
    for seed in range(_MOST_STARTS):
        start = _random_design(task, random.Random(seed))
        design, number, tried = _improved(task, start, _MOST_TRIALS - trials)
        if number < best_number * (1 - _LEAST_GAIN):
            best, best_number = design, number
        trials += tried
        if trials >= _ENOUGH_TRIALS:
            break
    assert best is not None
    assert best_number < _SINGULAR, "see `dry_run_guide` why a regular design exists"
    return _with_best_ends(task, best)


def _random_design(task: DesignTask, generator: random.Random) -> IntArray:
    """Return ranks with a random kind each; what is left when each has a layer is dealt out in random portions."""
    design = np.zeros((task.num_rounds, task.num_ranks, len(task.kinds)), dtype=np.int64)
    for counts in design:
        kinds = [generator.randrange(len(task.kinds)) for _ in counts]
        counts[np.arange(task.num_ranks), kinds] = 1
        left_over = task.num_layers - task.num_ranks
        while left_over:
            rank = generator.randrange(task.num_ranks)
            most = min(left_over, task.most_layers - int(counts[rank].sum()))
            portion = generator.randint(0, most)
            counts[rank, kinds[rank]] += portion
            left_over -= portion
    return design


def _improved(task: DesignTask, start: IntArray, most_trials: int) -> tuple[IntArray, float, int]:
    """Return `start` after exchanges, its condition number, and how many moves were tried."""
    design, trials, unchanged = start.copy(), 0, 0
    rows = _rows(task, np.arange(task.num_ranks), design)
    number = float(_condition_numbers(_gram(rows)))
    places = list(itertools.product(range(task.num_rounds), range(task.num_ranks)))
    for row, rank in itertools.cycle(places):
        if unchanged == len(places) or trials >= most_trials:
            break
        unchanged += 1
        moves = _moves(task, rank, design[row])
        without = _gram(rows) - _outer(rows[row, rank]) - _outer(rows[row, moves.partner])
        own = _rows(task, np.full_like(moves.partner, rank), moves.own)
        partners = _rows(task, moves.partner, moves.partners)
        numbers = _condition_numbers(without + _outer(own) + _outer(partners))
        trials += len(numbers)
        move = int(numbers.argmin())
        if numbers[move] < number * (1 - _LEAST_GAIN):
            design[row, rank], design[row, moves.partner[move]] = moves.own[move], moves.partners[move]
            rows = _rows(task, np.arange(task.num_ranks), design)
            number, unchanged = float(numbers[move]), 0
    return design, number, trials


def _moves(task: DesignTask, rank: int, counts: IntArray) -> _Moves:
    """Return the moves of `rank` with partners at distances 1, 2, 4, … on both sides."""
    distances = [2**exponent for exponent in range(task.num_ranks.bit_length()) if 2**exponent < task.num_ranks]
    others = np.array(sorted({(rank + sign * distance) % task.num_ranks for distance in distances for sign in (1, -1)}))
    units = np.eye(len(task.kinds), dtype=np.int64)
    handed, taken = _exchanges(task, counts[rank])
    # Layers go to a partner; or they change their kind here, some or all; or all layers trade places with a partner's.
    changed = np.concatenate([counts[rank] - handed + taken, counts[rank].sum() * units])
    own = np.concatenate([np.tile(counts[rank] - handed, (len(others), 1)), changed, counts[others]])
    partner = np.concatenate([np.repeat(others, len(handed)), np.full(len(changed), others[0]), others])
    partners = np.concatenate(
        [
            (counts[others][:, None] + taken).reshape(-1, len(units)),
            np.tile(counts[others[0]], (len(changed), 1)),
            np.tile(counts[rank], (len(others), 1)),
        ]
    )
    allowed = (own.sum(axis=1) >= 1) & (partners.sum(axis=1) <= task.most_layers)
    if SELECT in task.kinds and COMM in task.kinds:
        select, comm = task.kinds.index(SELECT), task.kinds.index(COMM)
        allowed &= (own[:, select] * own[:, comm] == 0) & (partners[:, select] * partners[:, comm] == 0)
    return _Moves(own=own[allowed], partner=partner[allowed], partners=partners[allowed])


def _exchanges(task: DesignTask, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return layers of one kind that a rank with `counts` may give, and as many of any kind, ``[exchange][kind]``."""
    units = np.eye(len(task.kinds), dtype=np.int64)
    most = task.most_layers
    pairs = [
        (amount * units[kind], amount * unit)
        for kind, count in enumerate(counts.tolist())
        for amount in sorted({1, 2, 3, 4, most // 4, most // 2, most - 1, count})
        if 0 < amount <= count
        for unit in units
    ]
    handed, taken = zip(*pairs, strict=True)
    return np.array(handed), np.array(taken)


def _rows(task: DesignTask, ranks: IntArray, counts: IntArray) -> FloatArray:
    """Return scaled rows of the system, zero for first and last rank: theirs have the unknowns head and tail too."""
    is_middle = (ranks > 0) & (ranks < task.num_ranks - 1)
    return np.where(is_middle[..., None], _terms(task, ranks, counts), 0.0)


def _terms(task: DesignTask, ranks: IntArray, counts: IntArray) -> FloatArray:
    """Return what the constant, parameters and each kind's activations add to the peaks of `ranks`, scaled."""
    layers = counts.sum(axis=-1)[..., None]
    in_flight = (task.num_ranks - ranks)[..., None]
    terms: FloatArray = np.concatenate([np.ones_like(layers), layers, in_flight * counts], axis=-1) * task.scales
    return terms


def _outer(rows: FloatArray) -> FloatArray:
    return rows[..., :, None] * rows[..., None, :]


def _gram(rows: FloatArray) -> FloatArray:
    flat = rows.reshape(-1, rows.shape[-1])
    gram: FloatArray = flat.T @ flat
    return gram


def _condition_numbers(grams: FloatArray) -> FloatArray:
    """Return the condition number behind each Gram matrix; of a singular one, how much it lacks."""
    eigenvalues = np.linalg.eigvalsh(grams)
    largest = eigenvalues[..., -1]
    lacking = (eigenvalues < _TINY * largest[..., None]).sum(axis=-1)
    regular = np.sqrt(largest / np.maximum(eigenvalues[..., 0], _TINY * largest))
    numbers: FloatArray = np.where(lacking, _SINGULAR * lacking, regular)
    return numbers


def _with_best_ends(task: DesignTask, design: IntArray) -> IntArray:
    """Return `design` with the layers of first and last ranks, of one kind each, that tell head and tail best.

    Head and tail are the difference between a peak and what the middle ranks say of it, which is wrong with variance
    ``x C x`` for coefficients x and the unknowns' covariance C.
    """
    last, units = task.num_ranks - 1, np.eye(len(task.kinds), dtype=np.int64)
    covariance = np.linalg.inv(_gram(_rows(task, np.arange(task.num_ranks), design)))
    result = design.copy()
    for counts in result:
        both = int(counts[[0, last]].sum())
        first_layers = np.arange(max(1, both - task.most_layers), min(task.most_layers, both - 1) + 1)
        best = []
        for rank, layers in ((0, first_layers), (last, both - first_layers)):
            options = layers[:, None, None] * units  # [count][kind][kind]
            terms = _terms(task, np.full(options.shape[:2], rank), options)
            variances = np.einsum("...i,ij,...j", terms, covariance, terms)
            best.append((options[np.arange(len(layers)), variances.argmin(axis=1)], variances.min(axis=1)))
        choice = int((best[0][1] + best[1][1]).argmin())
        counts[0], counts[last] = best[0][0][choice], best[1][0][choice]
    return result
