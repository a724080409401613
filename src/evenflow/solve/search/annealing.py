"""The search for good plans: simulated annealing on the exact makespan, in rounds of growing length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.model import FULL, EndBlock
from evenflow.simulate import Integers, end_bytes
from evenflow.solve.clock import now_s, spend
from evenflow.solve.problem import Problem

_TEMPERATURES = (0.004, 0.001, 0.012)
"""Starting temperatures of the rounds in turn, as fractions of the makespan."""
_COOLING = 300
"""Starting temperature over the last one of a round."""
_COLDEST_NS = 0.5
"""Lowest temperature: makespans are whole nanoseconds, so below it hardly any longer step is accepted."""
_COLD_MOVES = 100
"""Moves of a descent without a better plan, for every number of its counts, after which it is at its end."""
_FIRST_STEPS = 2000
"""Moves of each of the first rounds."""
_SETTLED_MOVES = 2000
"""Moves in a row without a better plan, for every number of its counts, after which the search has settled."""
_HELD = {"activation_bytes": 2, "until_weight_bytes": 5, "offloaded_bytes": 7}
"""Row of what live vectors count among the costs of a plan (`annealing_kernel.State`)."""
_MOVE_SECONDS, _ACTION_SECONDS = 1e-6, 2e-10
"""Work of a move, and for each action of the step."""


@dataclass(kw_only=True)
class Annealing:
    """A search by simulated annealing, which runs until it is stopped; `incumbent` is the best plan so far."""

    problem: Problem
    counts: Integers
    """Current plan, shape [num_cells, num_kinds]."""
    seed: int = 0
    best: int = field(init=False)
    """Makespan of `best_counts`, ns."""
    best_counts: Integers = field(init=False)
    _arguments: tuple[Any, ...] = field(init=False, repr=False)
    _incumbent: tuple[int, Integers] = field(init=False)
    _offered: tuple[int, Integers] | None = field(init=False, default=None)
    """Makespan and counts of the best plan that was offered."""
    _descended: tuple[int, Integers] | None = field(init=False, default=None)
    """Makespan and counts of the descent from the best plan of the rounds."""
    _cold_moves: int = field(init=False, default=0)
    """Moves of the descent since the last one that found a better plan."""
    _idle_moves: int = field(init=False, default=0)
    """Moves of the rounds since the last one that found a better plan."""

    def __post_init__(self) -> None:
        self._arguments = kernel_arguments(self.problem)
        self.best = np.iinfo(np.int64).max
        self.best_counts = self.counts.copy()
        self._anneal(steps=0, hot=1.0)

    def _anneal(self, *, steps: int, hot: float) -> None:
        self.seed += 1
        before = self.best
        self.best = self._moved(self.counts, self.best_counts, self.best, steps=steps, hot=hot, seed=self.seed)
        self._incumbent = (self.best, self.best_counts.copy())
        self._idle_moves = 0 if self.best < before else self._idle_moves + steps

    def _moved(self, counts: Integers, best_counts: Integers, best: int, *, steps: int, hot: float, seed: int) -> int:
        """Anneal from `counts` and return the makespan of the best plan, the first being `best`; sets `best_counts`."""
        from evenflow.solve.search.annealing_kernel import anneal

        cold = max(hot / _COOLING, _COLDEST_NS)
        makespan_ns = int(anneal(seed, steps, hot, cold, counts, best_counts, best, *self._arguments))
        spend(steps * (_MOVE_SECONDS + _ACTION_SECONDS * len(self.problem.graph.sequence)))
        return makespan_ns

    @property
    def incumbent(self) -> tuple[int, Integers]:
        """Makespan and counts of the best plan, offered ones included; other threads may read them during `run`."""
        others = [plan for plan in (self._offered, self._descended) if plan is not None]
        return min((self._incumbent, *others), key=lambda plan: plan[0])

    @property
    def has_settled(self) -> bool:
        """Whether so many moves found nothing better that more are not worth waiting for; readable during `run`."""
        return self._idle_moves >= _SETTLED_MOVES * self.counts.size

    def offer(self, counts: Integers) -> None:
        """Give the running search a plan found elsewhere, from which it goes on if the plan is better."""
        makespan_ns = self.problem.makespan_ns(self.problem.costs(counts))
        if self._offered is None or makespan_ns < self._offered[0]:
            self._offered = (makespan_ns, counts.copy())

    def improve(self, *, steps: int) -> None:
        """Anneal for so many moves from the best plan so far: equal calls in a row find equal plans."""
        self.counts[:] = self.best_counts
        self._anneal(steps=steps, hot=max(1.0, self.best * _TEMPERATURES[0]))

    def run(self, *, stop: Callable[[], bool], longest_round_s: float = 2.0) -> None:
        """Anneal until `stop` says so, in rounds of growing length that each start from the best plan so far."""
        for _round in self.rounds(longest_round_s=longest_round_s):
            if stop():
                return

    def _descend(self, *, steps: int) -> None:
        """Take so many moves more to plans that are hardly longer, from the best plan so far."""
        first_ns, first = self.incumbent
        counts, best_counts = first.copy(), first.copy()
        best_ns = self._moved(counts, best_counts, first_ns, steps=steps, hot=_COLDEST_NS, seed=self.seed)
        self._cold_moves = 0 if best_ns < first_ns else self._cold_moves + steps
        self._descended = best_ns, best_counts

    def rounds(self, *, longest_round_s: float) -> Iterator[None]:
        """Yield before every round, without end; the first rounds are short.

        Behind them goes on a descent from the best plan, which takes the last small gains where there are many kinds.
        The next rounds start from where the last ones ended: the end of a descent is hard to leave.
        """
        steps, before = _FIRST_STEPS, self.best
        while True:
            began = now_s()
            for temperature in _TEMPERATURES:
                yield
                offered = self._offered
                if offered is not None and offered[0] < self.best:
                    self.counts[:] = offered[1]
                    self._anneal(steps=0, hot=1.0)
                self.counts[:] = self.best_counts
                self._anneal(steps=steps, hot=max(1.0, self.best * temperature))
            if self.best < before or self._cold_moves < _COLD_MOVES * self.counts.size:
                yield
                self._cold_moves = 0 if self.best < before else self._cold_moves
                self._descend(steps=steps)
                before = self.best
            if now_s() - began < len(_TEMPERATURES) * longest_round_s / 2:
                steps *= 2


def kernel_arguments(problem: Problem) -> tuple[Any, ...]:
    """Return a problem as the compiled loops read it: its rules, prices, memory and graph."""
    # Importing the kernel loads the compiler, which only a search needs.
    from evenflow.solve.search.annealing_kernel import GraphArrays, Memory, Prices, Rules

    graph, sums = problem.graph, problem.sums
    num_cells = problem.num_cells
    fixed = np.zeros((6, num_cells), dtype=np.int64)
    fixed_working = np.zeros(num_cells, dtype=np.int64)
    speeds = list(problem.network.speeds)
    at_speeds = [problem.sums_at(speed) for speed in speeds]
    for cell, name in ((0, "head"), (num_cells - 1, "tail")):
        block: EndBlock = getattr(problem.network_at(problem.cell_speeds[cell]), name)
        fixed[:, cell] += (
            block.forward_ns,
            block.backward_ns,
            block.activation_bytes,
            block.parameter_bytes,
            block.weight_ns,
            block.until_weight_bytes,
        )
        fixed_working[cell] = max(fixed_working[cell], block.working_bytes)
    live_starts = np.concatenate(([0], np.cumsum([len(vectors) for vectors in problem.live])))
    times = problem.border_times_ns
    has_messages = problem.message_ns > 0 or times is not None or problem.link_ns is not None
    communication = problem.request.communication
    in_turn = has_messages and communication is not None and communication.one_at_a_time
    # No cell ever holds more layers than there are, so with that as the least none can give one away; contents are
    # not copied between ranks where layers are not taken as equal. What is left changes kinds within cells.
    moves_layers = problem.request.layers is None
    placement = problem.placement
    return (
        Rules(
            problem.schedule.stage_table,
            np.array(problem.schedule.stage_ranks),
            problem.schedule.splits_backward,
            problem.schedule.num_units,
            problem.min_layers if moves_layers else problem.num_layers,
            problem.network.is_uniform and moves_layers and placement is None,
            _memberships(problem),
            problem.request.cell_rule.alike,
            problem.kinds.index(FULL) if problem.counts_full else -1,
            *_full_bounds(problem),
            np.zeros((0, 0), dtype=np.int64) if placement is None else placement.banned,
            np.zeros(0, dtype=np.int64) if placement is None else placement.alone,
            np.zeros(0, dtype=np.bool_) if placement is None else placement.filled,
        ),
        Prices(
            np.array([speeds.index(speed) for speed in problem.cell_speeds], dtype=np.int64),
            np.stack([each.forward_ns for each in at_speeds]),
            np.stack([each.backward_ns for each in at_speeds]),
            sums.activation_bytes,
            sums.parameter_bytes,
            np.stack([each.weight_ns for each in at_speeds]),
            sums.until_weight_bytes,
            sums.working_table,
            np.vstack((fixed, fixed_working)),
            np.zeros((0, 0), dtype=np.int64) if sums.offloaded_bytes is None else sums.offloaded_bytes,
            problem.copy_ns_per_byte,
            np.array(
                [list(sums.segments).index(kind) if kind in sums.segments else -1 for kind in range(len(sums.kinds))],
                dtype=np.int64,
            ),
            _stacked([runs.activation_bytes for runs in sums.segments.values()]),
            _stacked([runs.working_bytes for runs in sums.segments.values()]),
            *_saved(problem, speeds),
            end_bytes(problem.network, num_cells),
            *_pair_tables(problem),
        ),
        Memory(
            np.concatenate(problem.live),
            np.array([_HELD[name] for name in problem.held], dtype=np.int64),
            live_starts,
            problem.limits - problem.constants,
            *_away(problem),
            *_beside(problem),
        ),
        GraphArrays(
            graph.rank_predecessors,
            graph.dependencies,
            graph.classes,
            graph.rank_lasts,
            problem.shortest_messages.copy() if has_messages else np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.bool_) if times is None else graph.crosses_ranks,
            np.zeros(0, dtype=np.int64) if times is None else times,
            np.zeros(problem.num_cells, dtype=np.int64) if problem.link_ns is None else problem.link_ns,
            graph.action_classes,
            communication.latency_ns if in_turn and communication is not None else 0,
            graph.receivers if in_turn else np.zeros(0, dtype=np.uint32),
            graph.ranks if in_turn else np.zeros(0, dtype=np.uint32),
            np.zeros(len(graph.sequence) + 1, dtype=np.int64),
            np.zeros(problem.num_ranks, dtype=np.int64),
            np.zeros(len(graph.sequence) + 1, dtype=np.int64),
        ),
    )


def _away(problem: Problem) -> tuple[Integers, Integers, Integers]:
    """Return the keeper of each rank, vectors of what ranks have away, and where those of each begin.

    All are empty where nobody keeps anything for another rank.
    """
    nothing = np.zeros((0, problem.num_chunks), dtype=np.int64)
    if not problem.pooled:
        return np.zeros(0, dtype=np.int64), nothing, np.zeros(0, dtype=np.int64)
    of_ranks = [problem.pooled.get(rank, nothing) for rank in range(problem.num_ranks)]
    keepers = [problem.keeper_of(rank) if rank in problem.pooled else None for rank in range(problem.num_ranks)]
    starts = np.concatenate(([0], np.cumsum([len(vectors) for vectors in of_ranks])))
    return np.array([-1 if keeper is None else keeper for keeper in keepers]), np.concatenate(of_ranks), starts


def _saved(problem: Problem, speeds: Sequence[float]) -> tuple[Integers, Integers, Integers]:
    """Return types of layers, what a forward of each saves beside a backward of each, and prefix sums of the most.

    The last two have the speeds of ranks as their first axis; all are empty where no forward runs beside a backward.
    """
    if not problem.schedule.has_pairs:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 0, 0), dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
    tables = [problem.halves(speed) for speed in speeds]
    most = np.stack([problem.most_saved_ns(speed) for speed in speeds])
    return tables[0].types, np.stack([table.saved_ns for table in tables]), most


def _pair_tables(problem: Problem) -> tuple[Integers, Integers, Integers, bool]:
    """Return what `held_beside` takes but for the first sums, and whether attention goes backward early.

    All are empty where pairs hold all of both, or there are none.
    """
    sums, nothing = problem.sums, np.zeros((0, 0), dtype=np.int64)
    if not problem.beside or sums.segments:
        return nothing, nothing, nothing, False
    return *sums.pair_tables[1:], sums.releases_attention


def _beside(problem: Problem) -> tuple[Integers, Integers, Integers]:
    """Return what is live beside pairs, the chunks of their forwards and backwards, and where those of ranks begin.

    All are empty where no forward runs beside a backward.
    """
    if not problem.beside:
        nothing = np.zeros((0, 0), dtype=np.int64)
        return nothing, nothing, np.zeros(0, dtype=np.int64)
    chunks = [np.stack((own.forward_chunks, own.backward_chunks), axis=1) for own in problem.beside]
    starts = np.concatenate(([0], np.cumsum([len(own.live) for own in problem.beside])))
    return np.concatenate([own.live for own in problem.beside]), np.concatenate(chunks).astype(np.int64), starts


def _stacked(tables: Sequence[Integers]) -> Integers:
    """Return tables of one shape as one array, which is empty without any."""
    return np.stack(tables) if tables else np.zeros((0, 0, 0), dtype=np.int64)


def _memberships(problem: Problem) -> NDArray[np.bool_]:
    """Return a mask of the kinds in each set that a cell may have, shape [num_families, num_kinds]."""
    table = np.zeros((len(problem.families), len(problem.kinds)), dtype=np.bool_)
    for row, family in zip(table, problem.families, strict=True):
        row[list(family)] = True
    return table


def _full_bounds(problem: Problem) -> tuple[int, int]:
    """Return the least and the most layers of a cell under `full`, whatever its number of layers."""
    least, most = problem.request.cell_rule.full or (0, None)
    return least, problem.num_layers if most is None else most
