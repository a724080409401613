"""The cut graph, whose paths are the plans: rank after rank takes up the network where the one before left it.

With two chunks that both go through the ranks from first to last, rank r holds the layers [a_r, a_{r+1}) and
[b_r, b_{r+1}):

    (0, c) --rank 0--> (a_1, b_1) --rank 1--> (a_2, b_2) -- ... --rank p-1--> (c, L)

A state is where the chunks are cut in front of a rank; an arc is a column of the proof, recomputation included. There
is one pair of ends for every cut c between the chunks. A second chunk that goes through the ranks from last to first
(V-shaped placements) is taken up from its end, and paths lead from (0, L) to (c, c). With one chunk they lead from (0)
to (L).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Schedule
from evenflow.simulate import Integers
from evenflow.solve.columns.cell_options import merged_runs
from evenflow.solve.columns.rank_columns import ColumnGroup
from evenflow.solve.master.matrix import Floats, durations_of
from evenflow.solve.problem import Problem

MAX_ARCS = 1_000_000
"""Most arcs of a cut graph: a shortest path through so many takes milliseconds and is asked for at every node."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CutGraph:
    """The arcs of the cut graph, grouped by step.

    A step is a rank, in the order in which the first chunk goes through the ranks. Arrays of arcs share their first
    axis.
    """

    ranks: tuple[int, ...]
    """Rank of each step."""
    starts: Integers
    """First arc of each step and the end of all, shape [num_steps + 1]."""
    sources: NDArray[np.int32]
    """State before the step of each arc, an index into ``states[step]``."""
    targets: NDArray[np.int32]
    """State behind the step of each arc, an index into ``states[step + 1]``."""
    durations_ns: Floats
    """Durations of each chunk and operation, shape [num_arcs, num_chunks * num_ops]; whole numbers."""
    columns: NDArray[np.int32]
    """Index of each arc's column in the group of its rank."""
    states: tuple[NDArray[np.int32], ...]
    """Cuts of the states before each step and behind the last, each of shape [num_states, num_chunks]."""
    ends: tuple[tuple[int, int], ...]
    """Pairs of a first and a last state between which paths are plans."""
    classes: Integers
    """Class (see `Graph`) of each duration of each step, shape [num_steps, num_chunks * num_ops]."""

    def __len__(self) -> int:
        return len(self.sources)

    def step(self, index: int) -> slice:
        """Return the arcs of a step as a slice."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def select(self, arcs: Integers) -> "CutGraph":
        """Return the graph with only these arcs, given by ascending indices."""
        return replace(
            self,
            starts=np.searchsorted(arcs, self.starts),
            sources=self.sources[arcs],
            targets=self.targets[arcs],
            durations_ns=self.durations_ns[arcs],
            columns=self.columns[arcs],
        )


def cut_graph(problem: Problem, groups: list[ColumnGroup]) -> CutGraph | None:
    """Return the graph of the columns of all ranks; None if it is too large or the placement is not one of these."""
    schedule = problem.schedule
    order = _steps(schedule)
    if order is None:
        return None
    ranks, turns_back = order
    spans = _Spans(problem)
    if sum(spans.count(groups[rank]) for rank in ranks) > MAX_ARCS:
        return None
    before, behind, columns = [], [], []
    for rank in ranks:
        column, start, end = spans.of(groups[rank])
        if turns_back:
            start[:, 1], end[:, 1] = end[:, 1].copy(), start[:, 1].copy()
        before.append(start)
        behind.append(end)
        columns.append(column)
    states, sources, targets = _states(before, behind)
    return CutGraph(
        ranks=ranks,
        starts=np.concatenate(([0], np.cumsum([len(of_rank) for of_rank in columns]))),
        sources=np.concatenate(sources),
        targets=np.concatenate(targets),
        durations_ns=np.concatenate(
            [_durations(problem, groups[rank], of_rank) for rank, of_rank in zip(ranks, columns, strict=True)]
        ),
        columns=np.concatenate(columns).astype(np.int32),
        states=states,
        ends=_ends(states[0].tolist(), states[-1].tolist(), problem.num_layers, turns_back=turns_back),
        classes=np.array(
            [[NUM_OPS * cell + op for cell in groups[rank].cells for op in schedule.used_ops] for rank in ranks]
        ),
    )


def _steps(schedule: Schedule) -> tuple[tuple[int, ...], bool] | None:
    """Return the ranks in the order of the first chunk and whether the second chunk goes back through them.

    None for any other placement.
    """
    ranks = schedule.stage_ranks[: schedule.num_ranks]
    rest = schedule.stage_ranks[schedule.num_ranks :]
    if len(set(ranks)) < len(ranks) or rest not in ((), ranks, ranks[::-1]):
        return None
    return ranks, rest not in ((), ranks)


class _Spans:
    """Places in the network where the cells of a column can be: several for a cell inside a run of equal layers."""

    def __init__(self, problem: Problem) -> None:
        sizes = np.array([run.count for run in merged_runs(problem)])
        self._run_ends = np.cumsum(sizes)
        self._run_starts = self._run_ends - sizes

    def _first_places(self, group: ColumnGroup, chunk: int) -> tuple[Integers, Integers]:
        """Return the first possible start of a chunk and its number of starts, for each column."""
        options, own = group.options[chunk], group.chosen[:, chunk]
        first, inside = options.first_run[own], options.first_run[own] == options.last_run[own]
        start = np.where(inside, self._run_starts[first], self._run_ends[first] - options.in_first[own])
        return start, np.where(inside, self._run_ends[first] - start - options.layers[own] + 1, 1)

    def count(self, group: ColumnGroup) -> int:
        """Return the number of pairs of a column and places for its cells."""
        return int(np.prod([self._first_places(group, chunk)[1] for chunk in range(len(group.cells))], axis=0).sum())

    def of(self, group: ColumnGroup) -> tuple[Integers, Integers, Integers]:
        """Return the columns, starts and ends of all pairs of a column and places for its cells.

        Starts and ends are those of the cells, shape [num_arcs, num_chunks].
        """
        columns = np.arange(len(group))
        starts: list[Integers] = []
        for chunk in range(len(group.cells)):
            start, places = self._first_places(group, chunk)
            repeats = places[columns]
            offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            starts = [np.repeat(of_rank, repeats) for of_rank in starts]
            columns = np.repeat(columns, repeats)
            starts.append(start[columns] + offsets)
        layers = [options.layers[group.chosen[columns, chunk]] for chunk, options in enumerate(group.options)]
        start = np.stack(starts, axis=1)
        return columns, start, start + np.stack(layers, axis=1)


def _states(
    before: list[Integers], behind: list[Integers]
) -> tuple[tuple[NDArray[np.int32], ...], list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    """Return the states before each step and behind the last, and the index of each arc's source and target."""
    states, sources, targets = [], [], []
    for step in range(len(before) + 1):
        left = behind[step - 1] if step else before[0][:0]
        right = before[step] if step < len(before) else left[:0]
        distinct, index = np.unique(np.concatenate((left, right)), axis=0, return_inverse=True)
        states.append(distinct.astype(np.int32))
        if step:
            targets.append(index[: len(left)].astype(np.int32))
        if step < len(before):
            sources.append(index[len(left) :].astype(np.int32))
    return tuple(states), sources, targets


def _ends(
    first: list[list[int]], last: list[list[int]], num_layers: int, *, turns_back: bool
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of indices into `first` and `last` between whose states the paths are plans."""
    positions = {tuple(state): index for index, state in enumerate(last)}
    pairs = []
    for index, state in enumerate(first):
        if turns_back and state == [0, num_layers]:
            pairs += [(index, at) for (state_start, other), at in positions.items() if state_start == other]
        elif not turns_back and state[0] == 0:
            at = positions.get((*state[1:], num_layers))
            pairs += [] if at is None else [(index, at)]
    return tuple(pairs)


def _durations(problem: Problem, group: ColumnGroup, columns: Integers) -> Floats:
    """Return the durations of some columns, as in `CutGraph.durations_ns`."""
    every = [
        durations_of(options, op)[group.chosen[:, chunk]]
        for chunk, options in enumerate(group.options)
        for op in problem.schedule.used_ops
    ]
    return np.stack(every, axis=1)[columns].astype(np.float64)
