"""The search that goes on where the linear program over columns of ranks stops: its mixtures are taken apart.

A box holds some columns of every rank. Its program bounds all plans made of them; where that mixes columns of a rank
with different layers, the box is split in two by how many layers the rank, or one of its cells, holds, and where only
other choices differ, by these. The box with the lowest bound comes first, so the bound on all plans rises with every
step, and it is exact in the end. Paths that a mixture violates stay in the program for all boxes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.columns.rank_columns import ColumnGroup
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.master import Master
from evenflow.solve.master.matrix import Floats
from evenflow.solve.start import fits

_VIOLATION = 1e-5
"""Fraction by which a path under a solution's durations must exceed its value to cut it off."""
_NEAR_VALUE = 0.998
"""Fraction of the value from which a path at a point between earlier solutions gets a row: it cuts deeper."""
_STALLED, _PATIENCE = 1e-4, 4
"""Fraction by which so many rounds of paths must raise the value together to go on."""
_USED = 1e-6
"""Share from which a program makes use of a column."""
_OF_TOTAL = 3.0
"""Times as much as the layers of a cell that those of a whole rank count when a split is chosen."""
_SPREAD = 0.01
"""How much each layer more between the columns of a mixture counts, beside how far their mean is from whole layers."""


@dataclass(order=True)
class _Box:
    """Columns of all ranks that plans may be made of."""

    bound_ns: float
    number: int
    """Tells boxes of equal bounds apart, the newest first."""
    columns: list[NDArray[np.int32]] = field(compare=False)
    """The columns of each group."""


class _Split(NamedTuple):
    """How a box is split: by whether a property of a group's columns is above a number."""

    group: int
    values: Integers
    highest_below: int


class Branching:
    """A search over boxes; each run goes on from the last one, for the same target or a lower one."""

    def __init__(self, master: Master, paths: CriticalPaths, *, target_ns: int) -> None:
        """Begin with all alive columns of `master`, whose groups are those of ranks, for plans of at most a target."""
        self._master, self._paths, self.target_ns = master, paths, target_ns
        alive = [np.flatnonzero(mask).astype(np.int32) for mask in master.alive]
        self._open = [_Box(0.0, 0, alive)]
        self._num_boxes = 1
        self._is_lean = False
        """Whether the program has no chains that it does not need."""
        self._undecided_ns = float("inf")
        """Least bound of boxes with one plan of which the program does not know the exact step."""
        self.counts: Integers | None = None
        """A plan within the target, if the search has come to one, shape [num_cells, num_kinds]."""

    @property
    def bound_ns(self) -> float:
        """Lower bound on all plans within the target; infinite where there is none."""
        return min(self._undecided_ns, self._open[0].bound_ns if self._open else float("inf"))

    def run(
        self, target_ns: int, *, enough_ns: float, keep_going: Callable[[], bool], report: Callable[[float], None]
    ) -> None:
        """Search until a plan within the target is found, the bound exceeds `enough_ns`, or `keep_going` says no.

        `report` is told every bound.
        """
        self.target_ns, self.counts = target_ns, None
        if not self._is_lean and keep_going():
            self._is_lean = True
            self._drop_chains(enough_ns)
        while self._open and self._open[0].bound_ns <= enough_ns and self.counts is None and keep_going():
            box = heappop(self._open)
            for child in self._split(box, enough_ns, keep_going):
                heappush(self._open, child)
            self._master.drop_idle_paths()
            report(min(self.bound_ns, float(target_ns)))

    def _drop_chains(self, enough_ns: float) -> None:
        """Drop the chains that the program of all columns does not need: every box would carry them."""
        self._master.rebuild()
        self._master.solve(enough_ns=enough_ns, passes=1)
        self._master.purge()
        self._master.rebuild()

    def _split(self, box: _Box, enough_ns: float, keep_going: Callable[[], bool]) -> list[_Box]:
        """Return the boxes that a box is split into; itself where the time is up, none where no plan is in it."""
        master = self._master
        masks = [np.zeros(len(group), dtype=np.bool_) for group in master.groups]
        for mask, columns in zip(masks, box.columns, strict=True):
            mask[columns] = True
        allowed = dict(enumerate(masks))
        bound = max(box.bound_ns, self._bound(allowed, enough_ns, keep_going))
        if bound > enough_ns:
            return []
        if not keep_going():
            return [_Box(bound, box.number, box.columns)]
        left = [columns[kept] for columns, kept in zip(box.columns, self._kept(box), strict=True)]
        mixture = [master.mixture(group, _USED) for group in range(len(master.groups))]
        split = self._choose(mixture)
        if split is None:
            chosen = [int(columns[np.argmax(shares)]) for columns, shares in mixture]
            return self._decide(_Box(bound, box.number, left), chosen, enough_ns)
        children = []
        for is_above in (False, True):
            own = left[split.group]
            part = own[(split.values[own] > split.highest_below) == is_above]
            if len(part):
                of_groups = [*left[: split.group], part, *left[split.group + 1 :]]
                children.append(_Box(bound, -self._num_boxes, of_groups))
                self._num_boxes += 1
        return children

    def _bound(self, allowed: dict[int, NDArray[np.bool_]], enough_ns: float, keep_going: Callable[[], bool]) -> float:
        """Return a bound on the plans of some columns, with all paths that their mixture violates."""
        master, center, values = self._master, None, []
        bound = 0.0
        while True:
            bound = max(bound, master.solve(allowed, enough_ns=enough_ns))
            if bound > enough_ns or not keep_going():
                return bound
            values.append(bound)
            value, latest = master.value_ns, master.durations_ns.astype(np.float64)
            center = latest if center is None else (center + latest) / 2
            violated = self._paths.count_longest(master.durations_ns, above_ns=value * (1 + _VIOLATION))
            has_stalled = len(values) > _PATIENCE and values[-1] < values[-1 - _PATIENCE] * (1 + _STALLED)
            if not len(violated.counts) or has_stalled:
                return bound
            master.add_paths(violated)
            master.add_paths(self._paths.count_longest(center.astype(np.int64), above_ns=value * _NEAR_VALUE))

    def _kept(self, box: _Box) -> list[NDArray[np.bool_]]:
        """Return which columns of a box, whose program was just solved, a plan within the target may have."""
        master = self._master
        if not master.complete or not master.reduced_costs:
            return [np.ones(len(columns), dtype=np.bool_) for columns in box.columns]
        return [master.may_meet(group, float(self.target_ns))[columns] for group, columns in enumerate(box.columns)]

    def _choose(self, mixture: list[tuple[NDArray[np.int32], Floats]]) -> _Split | None:
        """Return the best split of a mixture; None where it has one column of each group."""
        best, best_score = None, 0.0
        for at, (columns, shares) in enumerate(mixture):
            if len(columns) < 2:
                continue
            group = self._master.groups[at]
            for place, values in enumerate(_properties(group)):
                own = values[columns]
                low, high = int(own.min()), int(own.max())
                if low == high:
                    continue
                mean = float(own @ shares / shares.sum())
                below = min(int(np.floor(mean)), high - 1)
                is_option = place >= len(group.keys)
                score = _SPREAD * (high - low) + min(mean - np.floor(mean), np.ceil(mean) - mean)
                score *= 1e-9 if is_option else _OF_TOTAL if place == 0 else 1.0
                if best is None or score > best_score:
                    best, best_score = _Split(at, values, below), score
        return best

    def _decide(self, box: _Box, chosen: list[int], enough_ns: float) -> list[_Box]:
        """Take the one plan of a box's program; return the box where paths of the plan were not in the program."""
        problem = self._master.problem
        counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
        for group, column in zip(self._master.groups, chosen, strict=True):
            counts[list(group.cells)] = group.counts(column)
        if int(counts.sum()) == problem.num_layers:
            durations = problem.costs(counts).durations
            unknown = self._paths.count_longest(durations, above_ns=enough_ns)
            if len(unknown.counts):
                self._master.add_paths(unknown)
                return [box]
            if fits(problem, counts) and problem.simulate(counts).makespan_ns <= self.target_ns:
                self.counts = counts
                return [box]  # a lower target may come
        self._undecided_ns = min(self._undecided_ns, box.bound_ns)
        return []


def _properties(group: ColumnGroup) -> list[Integers]:
    """Return the properties of columns that a split may go by: the keys, and the options of each cell."""
    return [*group.keys, *(group.chosen[:, at].astype(np.int64) for at in range(len(group.cells)))]
