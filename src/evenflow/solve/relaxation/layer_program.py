"""The linear program over parts of layers: how much of every type of layer each cell holds under each recompute kind.

    minimise   makespan
    subject to makespan >= every critical path so far, with the durations that the layers make
               what a cell holds is what lies between its two borders, which are means of places in the network
               each rank holds what its limit allows, at each of its fullest moments

Borders and layers are not whole numbers here, so its value is a lower bound on every plan. It has as many columns as
cells times types, kinds and places, however many kinds of layers follow one another and in whatever order; the columns
of the proof (`columns`) are far more there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenflow.model import FULL, Layer
from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers, held_amounts
from evenflow.simulate.costs import duration_table
from evenflow.solve.backends.highs import INFINITY
from evenflow.solve.backends.incremental import Infeasible, LinearProgram
from evenflow.solve.backends.packed import Packed, empty
from evenflow.solve.master.critical_paths import CriticalPaths, LongestPaths
from evenflow.solve.problem import Problem
from evenflow.units import MEGABYTE

SCALE = 1000.0
"""Makespan of about the bound that is known, in the program: the solver's tolerances suit numbers of this size."""
_MOST_ENTRIES = 150_000
"""Most places of borders and parts of layers together: beyond it a solve takes longer than it is worth."""
_HELD = {"activation_bytes": 1, "until_weight_bytes": 2, "offloaded_bytes": 3}
"""Place among the bytes of a part of what live vectors count."""
_VIOLATION = 1e-5
"""Fraction by which a path under a solution's durations must exceed its value to cut it off."""
_NEAR_VALUE = 0.998
"""Fraction of the value from which a path at a point between earlier solutions gets a row: it cuts deeper."""
_NOISE = 1e-6
"""Fraction by which the value is lowered, for rounding."""
_STALLED, _PATIENCE = 2e-4, 12
"""Fraction by which so many solves must raise the value together to go on."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Relaxed:
    """What the program found."""

    bound_ns: float
    """Lower bound on the step of every plan; infinite where no plan fits."""
    borders: NDArray[np.float64] | None
    """Where each cell begins and the last ends, as numbers of layers, shape [num_cells + 1]; None without a solution.
    """
    mixture: NDArray[np.float64] | None
    """The mixture of paths of the bound: mean counts of every class of `Graph`, then the time of messages in ns; None
    without paths."""


class Relaxation:
    """The program of a problem with the paths so far: each run goes on from the last one."""

    def __init__(self, problem: Problem, *, scale_ns: int) -> None:
        """Prepare the program of `problem`, whose makespan is about `scale_ns`."""
        self._problem, self._scale_ns = problem, max(1, scale_ns)
        self._layout = _Layout.of(problem)
        self._program: _LayerProgram | None = None
        self._paths = CriticalPaths(problem.graph, problem.shortest_messages)
        self._found = Relaxed(bound_ns=0.0, borders=None, mixture=None)
        self._values = [0.0]
        self._center: NDArray[np.float64] | None = None
        self._keep_going: Callable[[], bool] = lambda: True
        self.is_over = self._layout.num_entries > _MOST_ENTRIES
        """Whether another run would find nothing more: the program is solved, or too large to begin with."""

    def run(self, *, keep_going: Callable[[], bool], report: Callable[[float], None]) -> Relaxed:
        """Solve and add violated paths until none is left, the value stalls or `keep_going` says no.

        `report` is told every bound.
        """
        self._keep_going = keep_going
        while not self.is_over and (self._program is None or keep_going()):
            self._step(report)
        return self._found

    def _goes_on(self) -> bool:
        return self._keep_going()

    def _step(self, report: Callable[[float], None]) -> None:
        """Solve once, and add the paths that the solution violates."""
        if self._program is None:
            self._program = _LayerProgram(
                self._problem, self._layout, scale_ns=self._scale_ns, keep_going=self._goes_on
            )
        program, values = self._program, self._values
        try:
            solution = program.solve()
        except Infeasible:
            self._found, self.is_over = Relaxed(bound_ns=float("inf"), borders=None, mixture=None), True
            return
        if solution is None:
            self.is_over = self._keep_going()  # else the time was up
            return
        value_ns, columns, shares = solution
        latest = program.durations(columns)
        self._center = latest if self._center is None else (self._center + latest) / 2
        violated = self._paths.count_longest(latest.astype(np.int64), above_ns=value_ns * (1 + _VIOLATION))
        near = self._paths.count_longest(self._center.astype(np.int64), above_ns=value_ns * _NEAR_VALUE)
        values.append(value_ns)
        self._found = Relaxed(
            bound_ns=max(self._found.bound_ns, value_ns * (1 - _NOISE)),
            borders=program.borders(columns),
            mixture=program.mixture(shares),
        )
        report(self._found.bound_ns)
        has_stalled = len(values) > _PATIENCE and values[-1] < values[-1 - _PATIENCE] * (1 + _STALLED)
        self.is_over = len(violated.counts) == 0 or has_stalled
        program.add_paths(violated)
        program.add_paths(near)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Layout:
    """The types of layers, and the places that borders may be at."""

    places: tuple[int, ...]
    """A layer of each type."""
    before: Integers
    """Layers of each type before each place in the network, shape [num_layers + 1, num_types]."""
    borders: tuple[range, ...]
    """Places of the border before each cell but the first."""
    kinds: tuple[int, ...]
    """Recompute kinds that cells may have, by index."""

    @classmethod
    def of(cls, problem: Problem) -> "_Layout":
        types: list[Layer] = []
        places: list[int] = []
        before = [[0] * len(problem.network.runs)]
        for place, layer in enumerate(problem.network.layers):
            plain = replace(layer, name="", cut_before=True, continues_block=False, boundary_bytes=None)
            if plain not in types:
                types.append(plain)
                places.append(place)
            before.append(before[-1].copy())
            before[-1][types.index(plain)] += 1
        fixed, least, last = problem.fixed_bounds, problem.min_layers, problem.num_cells
        spare = problem.num_layers - last * least
        return cls(
            places=tuple(places),
            before=np.array(before, dtype=np.int64)[:, : len(types)],
            borders=tuple(
                range(cell * least, cell * least + spare + 1)
                if fixed is None
                else range(int(fixed[cell]), int(fixed[cell]) + 1)
                for cell in range(1, last)
            ),
            kinds=tuple(sorted({kind for family in problem.families for kind in family})),
        )

    @property
    def num_entries(self) -> int:
        """Columns of the program."""
        cells = len(self.borders) + 1
        return sum(map(len, self.borders)) + cells * len(self.places) * len(self.kinds)


class _LayerProgram:
    """The program; its columns are the makespan, the parts [cell, type, kind], and the places of each border."""

    def __init__(self, problem: Problem, layout: _Layout, *, scale_ns: int, keep_going: Callable[[], bool]) -> None:
        self._problem, self._layout = problem, layout
        self._factor = SCALE / scale_ns
        num_cells, num_types, num_kinds = problem.num_cells, len(layout.places), len(layout.kinds)
        self._parts = 1 + np.arange(num_cells * num_types * num_kinds).reshape(num_cells, num_types, num_kinds)
        firsts = 1 + self._parts.size + np.concatenate(([0], np.cumsum([len(places) for places in layout.borders])))
        self._borders = [np.arange(first, end) for first, end in pairwise(firsts.tolist())]
        self._ends = problem.costs(np.zeros((num_cells, len(problem.kinds)), dtype=np.int64))
        """Costs of cells without layers: those of head and tail."""
        self._part_durations, self._part_bytes = self._of_parts()
        self._has_solved = False
        self._program = LinearProgram(keep_going)
        self._program.add_columns(np.eye(1, int(firsts[-1]))[0], empty(int(firsts[-1])))
        self._add(self._between_borders())
        self._add(self._memory())
        if problem.counts_full:
            self._add(self._most_full())
        self._paths = np.zeros((0, len(self._ends.durations) + 1))
        """Counts of every class on each path with a row, then the time of its messages; these rows are the last."""

    def solve(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the value in ns, the columns and the dual values of paths; None without time left.

        Raises Infeasible.
        """
        solution = self._program.solve(primal=not self._has_solved)  # which tells where there is no point at all
        self._has_solved = True
        if solution is None:
            return None
        return (
            solution.objective / self._factor,
            solution.values,
            solution.duals[len(solution.duals) - len(self._paths) :],
        )

    def mixture(self, duals: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the mixture of paths in the shares of their dual values; None where none has any."""
        shares = np.maximum(duals, 0.0)
        return shares @ self._paths / shares.sum() if shares.sum() > 0 else None

    def durations(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the durations of a solution by class of `Graph`, as `StageCosts` has them."""
        parts = np.einsum("stk,stkd->sd", columns[self._parts], self._part_durations)
        durations = self._ends.durations.astype(np.float64)
        num_operations = NUM_OPS * len(parts)
        durations[:num_operations] += parts[:, :NUM_OPS].reshape(-1)
        if len(durations) > num_operations:
            durations[num_operations:-1] += parts[:, NUM_OPS]
        return durations

    def borders(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean places of the borders, shape [num_cells + 1]."""
        pairs = zip(self._borders, self._layout.borders, strict=True)
        means = [float(columns[own] @ np.array(places)) for own, places in pairs]
        return np.array([0.0, *means, self._problem.num_layers])

    def add_paths(self, paths: LongestPaths) -> None:
        """Add a row for each path: the makespan is no shorter."""
        rows = []
        for counts, messages_ns in zip(paths.counts, paths.messages_ns, strict=True):
            of_cell = self._by_cell(counts)
            cells = np.flatnonzero(of_cell.any(axis=1))
            entries = -self._factor * np.einsum("sd,stkd->stk", of_cell[cells], self._part_durations[cells])
            least = self._factor * (int(messages_ns) + int(counts @ self._ends.durations))
            columns = np.concatenate(([0], self._parts[cells].reshape(-1)))
            rows.append((columns, np.concatenate(([1.0], entries.reshape(-1))), least, INFINITY))
        self._add(iter(rows))
        self._paths = np.concatenate((self._paths, np.column_stack((paths.counts, paths.messages_ns))))

    def _by_cell(self, counts: Integers) -> Integers:
        """Return the counts of a path for the operations of each cell, and for its copies, [num_cells, NUM_OPS + 1]."""
        num_cells = self._problem.num_cells
        of_operations = counts[: NUM_OPS * num_cells].reshape(-1, NUM_OPS)
        has_copies = len(counts) > of_operations.size
        of_copies = counts[of_operations.size : -1] if has_copies else np.zeros(num_cells, dtype=np.int64)
        return np.column_stack((of_operations, of_copies))

    def _of_parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return durations [cell, type, kind, NUM_OPS + 1] of layers, and bytes [cell, type, kind, 4] in MB.

        Behind the operations come copies. The bytes are those of parameters, of activations, of what waits for a weight
        gradient, and of what the host keeps.
        """
        problem, layout = self._problem, self._layout
        shape = self._parts.shape
        durations, sizes = np.zeros((*shape, NUM_OPS + 1)), np.zeros((*shape, 4))
        for cell, speed in enumerate(problem.cell_speeds):
            ns_per_byte = problem.copy_ns_per_byte[cell]
            layers = problem.network_at(speed).layers
            for row, place in enumerate(layout.places):
                layer = layers[place]
                for column, kind in enumerate(layout.kinds):
                    mode = layer.modes[problem.kinds[kind]]
                    times = [np.array([time]) for time in (layer.forward_ns, mode.backward_ns, layer.weight_ns)]
                    durations[cell, row, column] = *duration_table(*times), mode.offloaded_bytes * ns_per_byte
                    kept = mode.activation_bytes, layer.until_weight_bytes, mode.offloaded_bytes
                    sizes[cell, row, column] = layer.parameter_bytes, *kept
        return durations, sizes / MEGABYTE

    def _between_borders(self) -> Iterator["_Row"]:
        """Yield the rows by which a cell holds what lies between its borders, and borders are means."""
        before, borders = self._layout.before, self._layout.borders
        for own in self._borders:
            yield own, np.ones(len(own)), 1.0, 1.0
        last = len(borders)
        for cell in range(last + 1):
            for row in range(len(self._layout.places)):
                columns, entries, total = [self._parts[cell, row]], [np.ones(len(self._layout.kinds))], 0.0
                if cell < last:
                    columns.append(self._borders[cell])
                    entries.append(-before[borders[cell], row].astype(np.float64))
                else:
                    total = float(before[-1, row])
                if cell:
                    columns.append(self._borders[cell - 1])
                    entries.append(before[borders[cell - 1], row].astype(np.float64))
                yield np.concatenate(columns), np.concatenate(entries), total, total

    def _memory(self) -> Iterator["_Row"]:
        """Yield the rows by which ranks keep to their limits; of working memory, that of head and tail counts."""
        problem, ends = self._problem, self._ends
        if problem.memory_limit_bytes is None:
            return
        for rank in range(problem.num_ranks):
            cells = problem.schedule.stage_table[:, rank]
            kept = held_amounts(ends, cells, splits_backward=problem.schedule.splits_backward)
            for live in problem.live[rank]:
                base = int(ends.static_bytes[rank] + ends.working_bytes[rank] + live @ kept)
                times = np.zeros((len(cells), 4))
                times[:, 0] = 1
                for part, name in enumerate(problem.held):
                    times[:, _HELD[name]] = live[part * len(cells) : (part + 1) * len(cells)]
                entries = np.einsum("sb,stkb->stk", times, self._part_bytes[cells])
                room = float(int(problem.limits[rank]) - base) / MEGABYTE
                yield self._parts[cells].reshape(-1), entries.reshape(-1), -INFINITY, room

    def _most_full(self) -> Iterator["_Row"]:
        """Yield the rows by which no cell has more layers under full recomputation than its rule allows."""
        kinds = [column for column, kind in enumerate(self._layout.kinds) if self._problem.kinds[kind] == FULL]
        _least, most = self._problem.full_range(self._problem.num_layers)
        for cell in range(self._problem.num_cells):
            columns = self._parts[cell][:, kinds].reshape(-1)
            yield columns, np.ones(len(columns)), -INFINITY, float(most)

    def _add(self, rows: Iterator["_Row"]) -> None:
        made = list(rows)
        if not made:
            return
        starts = np.concatenate(([0], np.cumsum([len(columns) for columns, *_others in made])))
        packed = Packed(
            starts=starts,
            indices=np.concatenate([columns for columns, *_others in made]),
            entries=np.concatenate([entries for _columns, entries, *_others in made]),
        )
        self._program.add_rows(
            np.array([lower for *_others, lower, _upper in made]), np.array([row[3] for row in made]), packed
        )


_Row = tuple[Integers, NDArray[np.float64], float, float]
"""Columns, entries, and the least and the most that they may add up to."""
