"""The borders with the least peak where each rank has two cells, by dynamic programming over ranks.

Ranks take up the network one after the other, as in the cut graphs (`evenflow.solve.cuts.cut_graph`): a state is the
pair of places that both chunks have reached, and its value the least peak of the ranks so far. A second chunk that goes
the same way as the first begins where the first one ends, so that every such place has a table of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.clock import spend
from evenflow.solve.memory.smallest_contents import CellContents, SmallestContents
from evenflow.solve.memory.two_chunk_kernel import take_up
from evenflow.solve.passes import passes_of

_MOST_STATES = 30_000_000
"""Most states of all steps, which are kept to follow the best plan back."""
_LOOK_SECONDS = 2e-9
"""Work of one look at the contents of a rank."""


def has_two_chunks(contents: SmallestContents) -> bool:
    """Return whether `least_of_two_chunks` finds the plan: two chunks in order, unlike layers, nothing on the host."""
    problem = contents.problem
    num_states = (problem.num_ranks + 1) * (problem.num_layers + 1) ** 2
    return (
        problem.num_chunks == 2
        and problem.fixed_bounds is None
        and problem.host_link is None
        and not contents.is_uniform
        and num_states <= _MOST_STATES
        and passes_of(problem.schedule) is not None
    )


class _Contents(NamedTuple):
    """What a cell may hold, by the place where it is taken up."""

    starts: Integers
    """First contents of each place and the end of all."""
    targets: Integers
    """Place where the next cell is taken up."""
    sizes: Integers
    """Bytes under each live vector of the rank, shape [num_contents, num_vectors]."""
    working: Integers

    @property
    def spans(self) -> tuple[int, int]:
        """Fewest and most layers."""
        layers = np.abs(self.targets - np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)))
        return int(layers.min()), int(layers.max())


@dataclass(frozen=True, eq=False, kw_only=True)
class _Step:
    """A rank, in the order of the first chunk."""

    base: Integers
    first: _Contents
    second: _Contents


class Least(NamedTuple):
    """The least peak that is reached, below a limit, with the borders of its cells."""

    peak_bytes: int
    bounds: Integers


class TwoChunks:
    """The programs over the plans whose choices are left."""

    def __init__(
        self, contents: SmallestContents, choices: list[CellContents], *, keep_going: Callable[[], bool]
    ) -> None:
        """Prepare for what `choices` each cell has left; `contents` must have two chunks (see `has_two_chunks`)."""
        problem = contents.problem
        passes = passes_of(problem.schedule)
        assert passes is not None
        ranks, self._turns_back = passes
        self._problem, self._keep_going = problem, keep_going
        self._cells = problem.schedule.stage_table[:, list(ranks)].T
        self._steps = [
            _Step(
                base=contents.base(rank),
                first=_placed(contents, choices[first], rank=rank, chunk=0, turns_back=False),
                second=_placed(contents, choices[second], rank=rank, chunk=1, turns_back=self._turns_back),
            )
            for rank, (first, second) in zip(ranks, self._cells.tolist(), strict=True)
        ]
        spans = np.array([step.first.spans for step in self._steps])
        self._done, self._left = np.cumsum(spans, axis=0), np.cumsum(spans[::-1], axis=0)[::-1] - spans

    def least(self, *, below: int, enough_bytes: int) -> Least | None:
        """Return the plan with the least peak, if that is below `below`; one that needs `enough_bytes` ends the search.

        Raises `TimeoutError` when the time is up.
        """
        least = None
        for first, last in self._ends():
            tables = self._tables(first, last, below=below)
            value, place = self._behind(tables[-1], last)
            if value < below:
                least, below = Least(value, self._bounds(tables, place)), value
            if below <= enough_bytes:
                break
        return least

    def _ends(self) -> Iterator[tuple[tuple[int, int], int | None]]:
        """Yield the first state of each program, and where its first chunk ends (None: where the second one does)."""
        last, least = self._problem.num_layers, self._problem.num_ranks * self._problem.min_layers
        if self._turns_back:
            yield (0, last), None
            return
        for middle in sorted(range(least, last - least + 1), key=lambda place: abs(2 * place - last)):
            yield (0, middle), middle

    def _tables(self, state: tuple[int, int], middle: int | None, *, below: int) -> list[Integers]:
        """Return the least peaks by state before each step and behind the last, `below` where there is none."""
        num_places = self._problem.num_layers + 1
        tables = [np.full((num_places, num_places), below)]
        tables[0][state] = 0
        ends = (0, num_places - 1) if middle is None else (middle, middle)
        for index, step in enumerate(self._steps):
            if not self._keep_going():
                raise TimeoutError
            behind = np.empty_like(tables[-1])
            fewest, most = self._left[index]
            number = compiled(take_up)(
                tables[-1], step.base, *step.first, *step.second,
                int(ends[0] - most), int(ends[1] - fewest), below, behind,
            )  # fmt: skip
            spend(number * _LOOK_SECONDS)
            tables.append(behind)
        return tables

    def _behind(self, table: Integers, middle: int | None) -> tuple[int, tuple[int, int]]:
        """Return the least peak behind the last step, and its state."""
        if middle is not None:
            place = (middle, self._problem.num_layers)
            return int(table[place]), place
        along = np.diagonal(table)
        met = int(along.argmin())
        return int(along[met]), (met, met)

    def _bounds(self, tables: list[Integers], place: tuple[int, int]) -> Integers:
        """Return the borders of the cells of a plan that ends at a state, followed back from there."""
        bounds = np.zeros(self._problem.num_cells + 1, dtype=np.int64)
        bounds[-1] = self._problem.num_layers
        for index in range(len(self._steps) - 1, -1, -1):
            before = self._before(self._steps[index], tables[index], tables[index + 1][place], place)
            (first, second), (_, own) = self._cells[index].tolist(), before
            bounds[first + 1] = place[0]
            bounds[second + 1] = own if self._turns_back else place[1]
            place = before
        return bounds

    def _before(self, step: _Step, table: Integers, peak: int, place: tuple[int, int]) -> tuple[int, int]:
        """Return a state before a step from which it reaches a place with a peak."""
        num_places = len(table)
        sources = [np.repeat(np.arange(num_places), np.diff(own.starts)) for own in (step.first, step.second)]
        into = [np.flatnonzero(own.targets == at) for own, at in zip((step.first, step.second), place, strict=True)]
        for first in into[0].tolist():
            held = step.base + step.first.sizes[first] + step.second.sizes[into[1]]
            peaks = held.max(axis=1) + np.maximum(step.first.working[first], step.second.working[into[1]])
            peaks = np.maximum(peaks, table[sources[0][first], sources[1][into[1]]])
            reaches = np.flatnonzero(peaks == peak)
            if len(reaches):
                return int(sources[0][first]), int(sources[1][into[1]][reaches[0]])
        raise AssertionError("a state is behind another one")


def _placed(contents: SmallestContents, choices: CellContents, *, rank: int, chunk: int, turns_back: bool) -> _Contents:
    """Return the choices of a cell by the place where it is taken up."""
    source, target = (choices.ends, choices.starts) if turns_back else (choices.starts, choices.ends)
    order = np.argsort(source, kind="stable")
    num_places = contents.problem.num_layers + 1
    return _Contents(
        starts=np.searchsorted(source[order], np.arange(num_places + 1)),
        targets=target[order],
        sizes=np.ascontiguousarray(contents.sizes(rank, chunk, choices.amounts[order]).T),
        working=contents.working(rank, choices.amounts[order]),
    )
