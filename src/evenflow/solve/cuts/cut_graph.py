"""The cut graphs, whose paths are the plans: rank after rank takes up the network where the one before left it.

With two chunks that both go through the ranks from first to last, rank r holds the layers [a_r, a_{r+1}) and
[b_r, b_{r+1}):

    (0, c) --rank 0--> (a_1, b_1) --rank 1--> (a_2, b_2) -- ... --rank p-1--> (c, L)

A state is where the chunks are cut in front of a rank; an arc is what the rank holds, recomputation included. There is
one graph for every cut c between the chunks. A second chunk that goes through the ranks from last to first (V-shaped
placements) is taken up from its end, and paths lead from (0, L) to (c, c). With one chunk there is one graph, and its
paths lead from (0) to (L).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds import ramps_by_place_ns
from evenflow.solve.clock import spend
from evenflow.solve.columns.cell_options import CellOptions
from evenflow.solve.columns.rank_columns import Borders
from evenflow.solve.cuts.cut_kernels import connect, follow, sweep, walk
from evenflow.solve.cuts.placed_options import PlacedOptions, PlacedRuns, no_options
from evenflow.solve.cuts.rank_alone import Places, ranks_alone
from evenflow.solve.master.matrix import Floats, durations_of
from evenflow.solve.passes import passes_of
from evenflow.solve.problem import Problem

MAX_ARCS = 2_000_000
"""Most arcs of a cut graph: a shortest path through so many takes milliseconds and is asked for at every node."""
MAX_SHARED = 20_000_000
"""Most arcs of all graphs together, as they are found."""
_HELD = ("activation_bytes", "until_weight_bytes", "offloaded_bytes")
"""What live vectors count, in the order of `walk`."""
_FIRST_CAPACITY = 200_000
"""Most arcs of some states that room is made for at first; where there are more, they are counted and found again."""
_FOUND_SECONDS = 1e-6
"""Work to find one arc and to look at it."""
_TOGETHER = 64
"""States whose arcs are found together, and lose those that a rank alone has no time for."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CutGraph:
    """The arcs of a cut graph, grouped by step.

    A step is a rank, in the order in which the first chunk goes through the ranks. Arrays of arcs share their first
    axis.
    """

    middle: int
    """Place where the first chunk ends."""
    starts: Integers
    """First arc of each step and the end of all, shape [num_steps + 1]."""
    sources: NDArray[np.int32]
    """State before the step of each arc, an index into ``states[step]``."""
    targets: NDArray[np.int32]
    """State behind the step of each arc, an index into ``states[step + 1]``."""
    durations_ns: Floats
    """Durations of each chunk and operation, shape [num_arcs, num_chunks * num_ops]; whole numbers."""
    options: NDArray[np.int32]
    """Index of what each arc's cells hold among the options of the cell, shape [num_arcs, num_chunks]."""
    states: tuple[NDArray[np.int32], ...]
    """Cuts of the states before each step and behind the last, each of shape [num_states, 2]; one chunk leaves a zero.

    There is one state before the first step and one behind the last: all paths between them are plans.
    """
    classes: Integers
    """Class (see `Graph`) of each duration of each step, shape [num_steps, num_chunks * num_ops]."""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def is_connected(self) -> bool:
        """Whether arcs reach the state behind the last step."""
        return int(self.starts[-1]) > int(self.starts[-2])

    def step(self, index: int) -> slice:
        """Return the arcs of a step as a slice."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def shortest(self, weights: Floats, *, limit: float) -> "ShortestPath | None":
        """Return a shortest path where arcs of step s are ``durations @ weights[s]`` long; None above the limit."""
        swept = self.sweep(weights, limit=limit)
        within = np.flatnonzero(swept.alive)
        if not len(within):
            return None
        arcs = np.zeros(len(self.classes), dtype=np.int64)
        compiled(follow)(self.starts, self.sources, self.targets, swept.lengths, swept.behind, arcs)
        return ShortestPath(float(swept.behind[0, 0]), arcs, within)

    def sweep(self, weights: Floats, *, limit: float) -> "Swept":
        """Return all distances where arcs of step s are ``durations @ weights[s]`` long."""
        behind = np.empty((len(self.states), max(map(len, self.states))))
        swept = Swept(np.empty_like(behind), behind, np.empty(len(self)), np.empty(len(self), dtype=np.bool_))
        arrays = self.starts, self.sources, self.targets, self.durations_ns
        compiled(sweep)(*arrays, weights, limit, swept.behind, swept.before, swept.lengths, swept.alive)
        return swept

    def select(self, arcs: Places) -> "CutGraph":
        """Return the graph with only these arcs, given by ascending indices."""
        return replace(
            self,
            starts=np.searchsorted(arcs, self.starts),
            sources=self.sources[arcs],
            targets=self.targets[arcs],
            durations_ns=self.durations_ns[arcs],
            options=self.options[arcs],
        )


class Swept(NamedTuple):
    """Distances in a graph."""

    before: Floats
    """From the first state to each, over paths within the limit, shape [num_steps + 1, most states]."""
    behind: Floats
    """From each state to the last one, in the same shape."""
    lengths: Floats
    """Of each arc."""
    alive: NDArray[np.bool_]
    """Whether each arc is on a path within the limit."""


class ShortestPath(NamedTuple):
    """A shortest path from the first state to the last one."""

    length: float
    arcs: Integers
    """Its arc of each step."""
    within: Integers
    """All arcs on paths within the limit."""


class CutGraphs:
    """The cut graphs of a problem, which are made one by one; together they hold all plans of at most a target."""

    def __init__(
        self,
        problem: Problem,
        options: list[CellOptions],
        target_ns: int,
        *,
        middles: Sequence[int] | None = None,
        borders: Borders | None = None,
    ) -> None:
        """Prepare graphs of the `options` of each cell; `problem` must have them (see `has_cut_graphs`).

        `middles` are the places where the first chunk may end; left out, all are. With `borders`, the graphs hold the
        plans within them alone.
        """
        steps = passes_of(problem.schedule)
        assert steps is not None
        self._ranks, self._turns_back = steps
        self.problem, self._options = problem, options
        self._middles = sorted(middles_outwards(problem) if middles is None else middles)
        self._cells = problem.schedule.stage_table[:, list(self._ranks)].T
        """Cells of each step, shape [num_steps, num_chunks]."""
        runs = PlacedRuns.of(problem)
        self._placed: list[list[PlacedOptions]] = [
            [runs.placed(options[cell], turns_back=chunk == 1 and self._turns_back) for chunk, cell in enumerate(own)]
            for own in self._cells.tolist()
        ]
        """Options of both chunks of each step; where there is no second one, it may only hold nothing."""
        if problem.num_chunks == 1:
            self._placed = [[own, no_options(problem.num_layers)] for (own,) in self._placed]
        ramps = ramps_by_place_ns(problem)
        self._loads = [(target_ns - ramps[rank]) // problem.schedule.num_units for rank in self._ranks]
        """Most time that each step may take for a unit, by the place where its first chunk is taken up."""
        self._target_ns = target_ns
        self._alone = ranks_alone(problem)
        self._within = None if borders is None else self._behind(borders)
        """Least and most places of both chunks behind each step, shape [2, num_steps, 2]; None: anywhere."""
        ops = problem.schedule.used_ops
        self.classes = np.array([[NUM_OPS * cell + op for cell in own for op in ops] for own in self._cells])
        """As in all of the graphs."""
        self.works = problem.sums.forward_ns + problem.sums.backward_ns[-1]
        """Forward and backward of all layers before each place, shape [num_layers + 1]."""
        most = np.cumsum([0, *(loads.max() for loads in self._loads)])
        self._done = np.stack((self.works[-1] - (most[-1] - most), most), axis=1)
        """Least and most work that is done before each step and behind the last."""
        self._arcs: _Arcs | None = None
        """The arcs of all graphs, most of which are in many of them; None until they are made, or for too many."""
        self._making = self._make()

    def make(self, keep_going: Callable[[], bool]) -> bool:
        """Find the arcs of all graphs while `keep_going` says so; returns whether that is done."""
        return all(keep_going() for _block in self._making)

    def graph(self, middle: int) -> CutGraph | None:
        """Return the graph of the plans whose first chunk ends at `middle`; None where it has too many arcs."""
        self.make(lambda: True)
        arcs = self._arcs
        if arcs is None:
            return None
        first, last = self._ends(middle)
        begins = np.flatnonzero((arcs.states[0] == first).all(axis=1))
        ends = np.flatnonzero((arcs.states[-1] == last).all(axis=1))
        alive = np.zeros(int(arcs.starts[-1]), dtype=np.bool_)
        if len(ends):
            undone = int(self._work(np.array([first]))[0])
            compiled(connect)(
                arcs.starts, arcs.sources, arcs.targets, arcs.done, self._done, undone, int(begins[0]), int(ends[0]),
                alive,
            )  # fmt: skip
        chosen = np.flatnonzero(alive)
        if len(chosen) > MAX_ARCS:
            return None
        starts = np.searchsorted(chosen, arcs.starts)
        sources, targets = arcs.sources[chosen], arcs.targets[chosen]
        states, options = [np.array([first])], arcs.options[chosen]
        new_sources, new_targets = np.zeros_like(sources), np.empty_like(targets)
        durations_ns = np.empty((len(chosen), self.classes.shape[1]))
        for step, cells in enumerate(self._cells.tolist()):
            own = slice(int(starts[step]), int(starts[step + 1]))
            kept, new_targets[own] = _distinct(targets[own].astype(np.int64), len(arcs.states[step + 1]))
            if step + 1 < len(self._cells):
                behind = slice(int(starts[step + 1]), int(starts[step + 2]))
                new_sources[behind] = np.searchsorted(kept, sources[behind])
            states.append(arcs.states[step + 1][kept])
            durations_ns[own] = self._durations(cells, options[own])
        return CutGraph(
            middle=middle,
            starts=starts,
            sources=new_sources,
            targets=new_targets,
            durations_ns=durations_ns,
            options=options,
            states=tuple(own.astype(np.int32) for own in states),
            classes=self.classes,
        )

    def counts(self, graph: CutGraph, arcs: Integers) -> Integers:
        """Return the plan of a path of one of the graphs, shape [num_cells, num_kinds]."""
        result = np.zeros((self.problem.num_cells, len(self.problem.kinds)), dtype=np.int64)
        for cells, chosen in zip(self._cells.tolist(), graph.options[arcs].tolist(), strict=True):
            for cell, option in zip(cells, chosen, strict=True):
                result[cell] = self._options[cell].counts[option]
        return result

    def _make(self) -> Iterator[None]:
        """Find `_arcs`, so many states at a time."""
        num_places = self.problem.num_layers + 1
        keys = np.unique([self._key(np.array(self._ends(middle)[0])) for middle in self._middles])
        lasts = np.unique([self._key(np.array(self._ends(middle)[1])) for middle in self._middles])
        states = [np.stack(np.divmod(keys, num_places), axis=1)]
        least = most = self._work(states[0])
        """Least and most `_work` that nobody has done, in the graphs that have a state."""
        steps: list[_Step] = []
        targets_of = []
        room = MAX_SHARED
        for step in range(len(self._ranks)):
            blocks = []
            for begin in range(0, max(1, len(states[-1])), _TOGETHER):
                those = slice(begin, begin + _TOGETHER)
                block = self._take_up(step, states[-1][those], least[those], most[those])
                blocks.append(block._replace(sources=block.sources + begin))
                room -= len(block.sources)
                if room < 0:
                    return
                yield
            own = _Step(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
            keys_of = self._key(own.behind)
            if step == len(self._ranks) - 1:
                are_last = np.isin(keys_of, lasts)
                own, keys_of = own.keep(are_last), keys_of[are_last]
            keys, targets = _distinct(keys_of, num_places**2)
            states.append(np.stack(np.divmod(keys, num_places), axis=1))
            steps.append(own)
            targets_of.append(targets)
            done = self._work(states[-1])
            behind = np.full(len(keys), np.iinfo(np.int64).max), np.full(len(keys), np.iinfo(np.int64).min)
            np.minimum.at(behind[0], targets, least[own.sources])
            np.maximum.at(behind[1], targets, most[own.sources])
            least = np.maximum(behind[0], done - self._done[step + 1, 1])
            most = np.minimum(behind[1], done - self._done[step + 1, 0])
        widest = max(map(len, states))
        self._arcs = _Arcs(
            starts=np.cumsum([0, *(len(own.sources) for own in steps)]),
            sources=np.concatenate([own.sources for own in steps]),
            targets=np.concatenate(targets_of),
            options=np.concatenate([own.options for own in steps]),
            states=tuple(states),
            done=np.stack([np.pad(self._work(own), (0, widest - len(own))) for own in states]),
        )

    def _ends(self, middle: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the first and the last state of a graph."""
        last = self.problem.num_layers
        if self.problem.num_chunks == 1:
            return (0, 0), (last, 0)
        if self._turns_back:
            return (0, last), (middle, middle)
        return (0, middle), (middle, last)

    def _work(self, states: Integers) -> Integers:
        """Return the work of the layers before each chunk, or behind a chunk that turns back, shape [num_states]."""
        beside = self.works[states[:, 1]]
        return np.asarray(self.works[states[:, 0]] + (self.works[-1] - beside if self._turns_back else beside))

    def _take_up(self, step: int, states: Integers, least: Integers, most: Integers) -> "_Step":
        """Return the arcs of a step from these states that a rank alone has the time for.

        In the graphs that have a state at least and most so much of `_work` is done by nobody, shape [num_states].
        """
        problem, rank, placed = self.problem, self._ranks[step], self._placed[step]
        of_rank = problem.live[rank].reshape(len(problem.live[rank]), -1, problem.num_chunks)
        live = np.zeros((len(of_rank), len(_HELD), 2), dtype=np.int64)
        live[:, [_HELD.index(name) for name in problem.held], : problem.num_chunks] = of_rank
        works = np.stack((self.works, self.works[-1] - self.works if self._turns_back else self.works))
        low, high = self._done[step + 1]
        number, size = _FIRST_CAPACITY, 0
        while number > size:
            size = number
            sources, chosen = np.empty(size, dtype=np.int32), np.empty((size, 2), dtype=np.int32)
            number = compiled(walk)(
                *placed,
                live.reshape(-1, 2 * len(_HELD)),
                int(problem.limits[rank] - problem.constants[rank]),
                self._loads[step],
                states,
                low + least,
                high + most,
                works,
                sources,
                chosen,
            )
        spend(number * _FOUND_SECONDS)
        sources, chosen = sources[:number], chosen[:number]
        behind = [own.targets[chosen[:, chunk]] for chunk, own in enumerate(placed)]
        origins = [own.origins[chosen[:, chunk]] for chunk, own in enumerate(placed)]
        options = np.stack(origins[: problem.num_chunks], axis=1).astype(np.int32)
        arcs = _Step(sources, np.stack(behind, axis=1), options)
        if self._within is not None:
            least_places, most_places = self._within[:, step]
            arcs = arcs.keep(((arcs.behind >= least_places) & (arcs.behind <= most_places)).all(axis=1))
            sources, options = arcs.sources, arcs.options
        cells = self._cells[step].tolist()
        durations_ns = self._durations(cells, options)
        if problem.host_link is None or problem.copies_take_no_time:
            return arcs.keep(~self._exceeds(step, states[sources], arcs.behind, durations_ns))
        copies = np.stack([self._options[cell].copy_ns[options[:, chunk]] for chunk, cell in enumerate(cells)])
        in_time = ~self._exceeds(step, states[sources], arcs.behind, durations_ns, copies=copies)
        return arcs.keep(in_time).distinct(durations_ns[in_time], copies[:, in_time].sum(axis=0))

    def _behind(self, borders: Borders) -> Integers:
        """Return `borders` as places of both chunks behind each step, shape [2, num_steps, 2]."""
        behind = self._cells + 1
        if self._turns_back:
            behind[:, 1] -= 1
        places = np.stack(borders)[:, behind]
        return places if self.problem.num_chunks > 1 else np.pad(places, ((0, 0), (0, 0), (0, 1)))

    def _exceeds(
        self,
        step: int,
        before: Places,
        behind: Places,
        durations_ns: Floats,
        *,
        gradients: Floats | None = None,
        copies: Integers | None = None,
    ) -> NDArray[np.bool_]:
        """Return which arcs of a step, from and to these places [num_arcs, 2], take too long (see `RankAlone`)."""
        begins, ends = before.T, behind.T
        if self._turns_back:
            begins, ends = np.stack((begins[0], ends[1])), np.stack((ends[0], begins[1]))
        chunks = slice(self.problem.num_chunks)
        return self._alone[self._ranks[step]].exceeds(
            durations_ns, begins[chunks], ends[chunks], self._target_ns, gradients=gradients, copies=copies
        )

    def in_time(self, graph: CutGraph) -> NDArray[np.bool_]:
        """Return which arcs may be in a plan within the target, by each rank alone.

        For the gradients of all other ranks, with the recomputation that they need, count shortest paths. Copies count
        nothing here: an arc may stand for others with longer ones.
        """
        num_chunks, num_steps = self.problem.num_chunks, len(graph.classes)
        schedule = self.problem.schedule
        gradient = Op.I if schedule.splits_backward else Op.B  # of backwards that are split and whole, the shorter one
        are_gradients = np.array(schedule.used_ops) == gradient
        swept = []
        for own_chunk in np.eye(num_chunks):
            weights = np.tile(np.outer(own_chunk, are_gradients).ravel(), (num_steps, 1))
            swept.append(graph.sweep(weights, limit=np.inf))
        result = np.empty(len(graph), dtype=np.bool_)
        for step in range(num_steps):
            own = graph.step(step)
            sources, targets = graph.sources[own], graph.targets[own]
            earlier = [of.before[step, sources] for of in swept]
            later = [of.behind[step + 1, targets] for of in swept]
            gaps = [earlier[0], later[0]]
            if num_chunks > 1:  # stages of the second chunk that lie between those of the rank, and behind them
                between, last = (later[1], earlier[1]) if self._turns_back else (earlier[1], later[1])
                gaps = [earlier[0], later[0] + between, last]
            before, behind = graph.states[step][sources], graph.states[step + 1][targets]
            durations_ns = graph.durations_ns[own]
            result[own] = ~self._exceeds(step, before, behind, durations_ns, gradients=np.stack(gaps))
        return result

    def _key(self, places: Integers) -> Integers:
        """Return one number for the places of both chunks, which are the last axis."""
        return np.asarray(places[..., 0] * (self.problem.num_layers + 1) + places[..., 1])

    def _durations(self, cells: list[int], chosen: NDArray[np.int32]) -> Floats:
        """Return the durations of arcs of these cells with these options, as in `CutGraph.durations_ns`."""
        of_slots = [
            durations_of(self._options[cell], op)[chosen[:, chunk]]
            for chunk, cell in enumerate(cells)
            for op in self.problem.schedule.used_ops
        ]
        return np.stack(of_slots, axis=1).astype(np.float64)


class _Arcs(NamedTuple):
    """The arcs of all graphs, grouped by step; arrays of arcs share their first axis."""

    starts: Integers
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    options: NDArray[np.int32]
    """All as in `CutGraph`."""
    states: tuple[Integers, ...]
    """Cuts of the states of all graphs, of which several may be first and last ones."""
    done: Integers
    """Work of the layers before each chunk at each state, shape [num_steps + 1, most states]."""


class _Step(NamedTuple):
    """Arcs of one step, which share their first axis."""

    sources: NDArray[np.int32]
    behind: Integers
    """Places of both chunks behind the step, shape [num_arcs, 2]."""
    options: NDArray[np.int32]

    def keep(self, chosen: NDArray[np.bool_]) -> "_Step":
        """Return the chosen arcs."""
        return _Step(self.sources[chosen], self.behind[chosen], self.options[chosen])

    def distinct(self, durations_ns: Floats, copies_ns: Integers) -> "_Step":
        """Return of all arcs with the same ends and durations that with the shortest copies, which no path counts."""
        order = np.argsort(copies_ns, kind="stable")
        same = np.column_stack((self.sources, self.behind, durations_ns))[order]
        _, firsts = np.unique(same, axis=0, return_index=True)
        return self.keep(np.sort(order[firsts]))


def middles_outwards(problem: Problem) -> list[int]:
    """Return the places where the first chunk may end, those in the middle of the network first."""
    num_layers = problem.num_layers
    if problem.num_chunks == 1:
        return [num_layers]
    least = problem.num_ranks * problem.min_layers
    return sorted(range(least, num_layers - least + 1), key=lambda place: abs(2 * place - num_layers))


def has_cut_graphs(problem: Problem) -> bool:
    """Return whether plans are paths: one chunk, or two that pass the ranks in one or both ways, and no copies in it.

    Where forwards run beside backwards they are not: what a cell takes depends on another.
    """
    return passes_of(problem.schedule) is not None and problem.graph.copied is None and not problem.schedule.has_pairs


def _distinct(keys: Integers, most: int) -> tuple[Integers, NDArray[np.int32]]:
    """Return the distinct keys, which are below `most`, in order, and the index of each key among them."""
    number = np.zeros(most, dtype=np.int32)
    number[keys] = 1
    distinct = np.flatnonzero(number)
    number[distinct] = np.arange(len(distinct))
    return distinct, number[keys]
