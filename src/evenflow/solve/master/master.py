"""The linear program of the proof, over columns that are generated as they are needed.

    minimise   makespan
    subject to one column of every group
               cell durations = those of the chosen columns
               all layers of each run of equal layers are held, and cells follow the order of runs
               memory of each rank, where cells are chosen one by one
               the chains of the critical paths: end[target] >= end[source] + durations

Its value, after pricing, is a lower bound for every plan whose columns are all allowed. Times are scaled so that
`scale_ns` takes `SCALE`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers, sent_across
from evenflow.solve.backends.highs import INFINITY, Program
from evenflow.solve.backends.incremental import Infeasible, LinearProgram
from evenflow.solve.backends.packed import Packed, appended, empty, single
from evenflow.solve.columns.cell_options import CellOptions
from evenflow.solve.columns.rank_columns import ColumnGroup
from evenflow.solve.master.critical_paths import CriticalPaths, LongestPaths
from evenflow.solve.master.matrix import Floats, Mask, Matrix, RowLayout, chain_rows, sink_rows
from evenflow.solve.problem import Problem

SCALE = 1000.0
"""Makespan of about the target in the program: the solver's tolerances are absolute and suit numbers of this size."""
_PENALTY = 100 * SCALE
"""Penalty for a group without a column and for a layer left out, which keeps the program feasible while columns are
missing.
"""
_NEEDED = 1e-9
"""Dual value up to which a chain does not support the value of the program."""
_MANY_PATHS, _IDLE_SOLVES = 300, 40
"""Number of paths with rows of their own above which those go that so many solves have not needed."""
_PRICED_AT_ONCE = 40
"""Most columns of a group, besides the best, that one pricing enters: few, so that the program stays small."""
_ALL_AT_ONCE = 2000
"""Number of columns up to which all enter the program at once."""
_FEW = 0.5
"""Share of the columns of a group below which those that are allowed are priced alone."""
_IMPROVING = 1e-7 * SCALE
"""Least amount by which the reduced cost of a column must be below zero to improve the program; less is rounding."""
_ROOM = 1e-6 * SCALE
"""Room left for rounding where columns are removed by reduced cost."""


class TooFull(NamedTuple):
    """What is too much together for a keeper, which a program in floating point may take for enough."""

    row: int
    """The row of the keeper."""
    held: dict[int, int]
    """By group, what its column holds itself, or what is set aside for it, in bytes."""


class Master:
    """The linear program with its columns: those alive, those in the program, those allowed in the present solve."""

    def __init__(
        self,
        problem: Problem,
        groups: list[ColumnGroup],
        paths: CriticalPaths,
        *,
        scale_ns: int,
        by_cell: bool,
        keep_going: Callable[[], bool],
    ) -> None:
        """Build the program of `groups` (of cells if `by_cell`, else of ranks); `keep_going` says if time is left."""
        self.problem, self.groups, self.paths = problem, groups, paths
        self._keep_going = keep_going
        self.factor = SCALE / scale_ns
        """Scaled time per nanosecond."""
        self._layout = RowLayout.of(problem, by_cell=by_cell)
        self._duration_classes = self._layout.duration_classes
        self._matrices = [Matrix(problem, group, self._layout, self.factor) for group in groups]
        self._row_lower, self._row_upper = self._layout.bounds(problem)
        self.alive: list[Mask] = [np.ones(len(group), dtype=bool) for group in groups]
        self._present: list[dict[int, int]] = [{} for _ in groups]
        """Program column by column index, for each group."""
        self._entered: list[list[int]] = [[] for _ in groups]
        self._is_small = sum(map(len, groups)) <= _ALL_AT_ONCE
        if self._is_small:
            self._entered = [list(range(len(group))) for group in groups]
        num_classes = int(self._duration_classes.max()) + 1
        self.durations_ns: Integers = np.zeros(max(num_classes, NUM_OPS * problem.num_cells), dtype=np.int64)
        self.last_bound_ns = 0.0
        self.value_ns = 0.0
        """Value of the last program, which is the bound once all columns are priced."""
        self.complete = False
        self.reduced_costs: list[Floats] = []
        self.slack: list[float] = []
        self.rebuild()

    # -- building ------------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Build the program anew with the present columns and all chains of the paths."""
        program = LinearProgram(self._keep_going)
        num_durations = len(self._duration_classes)
        fixed_rows = len(self._row_lower)
        # Rows: those of the layout, then one for each group.
        ones = np.ones(len(self.groups))
        num_rows = fixed_rows + len(self.groups)
        upper = np.concatenate((self._row_upper, ones))
        program.add_rows(np.concatenate((self._row_lower, ones)), upper, empty(num_rows))
        # Columns: makespan, durations, penalties, ends of junctions, then those of the groups.
        program.add_columns(np.ones(1), empty(1))
        program.add_columns(np.zeros(num_durations), single(np.arange(num_durations), -1.0))
        runs = self._layout.conserve + np.arange(len(self._layout.run_sizes))
        for rows, entry in ((np.arange(fixed_rows, num_rows), 1.0), (runs, 1.0), (runs, -1.0)):
            program.add_columns(np.full(len(rows), _PENALTY), single(rows, entry))
        self._add_chains(program)
        self._program = program
        self._duals: Floats = np.zeros(0)
        self._values: Floats = np.zeros(0)
        self._idle_solves: Integers = np.zeros(0, dtype=np.int64)
        """Solves since each path of `add_paths` last supported the value; these rows are the last."""
        self._first_path = 0
        entered, self._entered = self._entered, [[] for _ in self.groups]
        self._present = [{} for _ in self.groups]
        for group, indices in enumerate(entered):
            self._enter(group, [index for index in indices if self.alive[group][index]])

    def _add_chains(self, program: LinearProgram) -> None:
        chains = self._chains = self.paths.chains()
        first = program.num_columns
        targets = np.unique(chains.ends[:, 1])
        program.add_columns(np.zeros(len(targets)), empty(len(targets)))
        rows = chain_rows(chains, targets, duration_classes=self._duration_classes, first_end=first)
        program.add_rows(chains.messages_ns * self.factor, np.full(len(rows), INFINITY), rows)
        rows = sink_rows(chains, targets, first_end=first)
        program.add_rows(np.zeros(len(rows)), np.full(len(rows), INFINITY), rows)

    @property
    def num_chains(self) -> int:
        """Number of chains in the program."""
        return len(self._chains)

    def purge(self) -> None:
        """Remove the chains that this program did not need for its value; the next `rebuild` leaves them out."""
        if not len(self._duals):
            return
        first = len(self._row_lower) + len(self.groups)
        self.paths.keep(self._chains, np.abs(self._duals[first : first + len(self._chains)]) > _NEEDED)

    def add_paths(self, paths: LongestPaths) -> None:
        """Add a row for each path, until the next `rebuild`: the makespan is no shorter."""
        if not len(paths.counts):
            return
        counts = paths.counts[:, self._duration_classes]
        of_paths, slots = np.nonzero(counts)
        starts = np.searchsorted(of_paths, np.arange(len(counts) + 1))
        # Each row begins with the makespan, column 0.
        rows = Packed(
            starts=starts + np.arange(len(starts)),
            indices=np.insert(1 + slots, starts[:-1], 0),
            entries=np.insert(-counts[of_paths, slots].astype(np.float64), starts[:-1], 1.0),
        )
        if not len(self._idle_solves):
            self._first_path = self._program.num_rows
        lower = (paths.messages_ns * self.factor).astype(np.float64)
        self._program.add_rows(lower, np.full(len(counts), INFINITY), rows)
        self._idle_solves = np.concatenate((self._idle_solves, np.zeros(len(counts), dtype=np.int64)))

    def drop_idle_paths(self) -> None:
        """Delete rows of paths that the program has not needed for long, where there are many."""
        idle = np.flatnonzero(self._idle_solves > _IDLE_SOLVES)
        if len(self._idle_solves) > _MANY_PATHS and len(idle):
            self._program.delete_rows((self._first_path + idle).astype(np.int32))
            self._idle_solves = np.delete(self._idle_solves, idle)

    def _enter(self, group: int, indices: list[int]) -> None:
        """Add columns of a group to the program."""
        first = self._program.num_columns
        self._present[group].update(zip(indices, range(first, first + len(indices)), strict=True))
        self._entered[group] += indices
        columns = self._matrices[group].columns(np.array(indices, dtype=np.int64))
        own_row = len(self._row_lower) + group
        self._program.add_columns(np.zeros(len(indices)), appended(columns, own_row, 1.0))

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(
        self,
        allowed: dict[int, Mask] | None = None,
        *,
        enough_ns: float = float("inf"),
        deciding: bool = False,
        passes: int | None = None,
    ) -> float:
        """Return a lower bound in ns on plans of alive columns, and of `allowed` ones in the groups given.

        Stops early once the bound exceeds `enough_ns`; if only that matters (`deciding`), also once it is clear that it
        will not; and after some `passes` of pricing (then `complete` is false and the bound weak but valid). Returns
        infinity when there is no plan at all. Leaves `durations_ns` and the reduced costs of the last program for the
        caller.
        """
        masks = [self.alive[g] if not allowed or g not in allowed else allowed[g] for g in range(len(self.groups))]
        if any(not mask.any() for mask in masks):
            return float("inf")
        closed = self._close(masks, allowed)
        try:
            return self._solve_and_price(masks, enough_ns, deciding, passes)
        except Infeasible:
            return float("inf")
        finally:
            if len(closed):
                self._program.set_upper(closed, INFINITY)

    def _solve_and_price(self, masks: list[Mask], enough_ns: float, deciding: bool, passes: int | None) -> float:
        best = 0.0
        while True:
            solution = self._program.solve(primal=deciding and not self._is_small)
            if solution is None:
                # Trouble or no time: what is known stays true, but there is nothing to drop columns by.
                self.complete, self.reduced_costs = True, []
                return best
            self.value_ns = solution.objective / self.factor
            self._duals, self._values = solution.duals, solution.values
            if len(self._idle_solves):
                is_needed = np.abs(solution.duals[self._first_path :]) > _NEEDED
                self._idle_solves = np.where(is_needed, 0, self._idle_solves + 1)
            self.complete = not self._price(masks, solution.duals)
            # One column of each group: moving to the cheapest gains at most its reduced cost.
            self.last_bound_ns = (solution.objective + sum(self.slack)) / self.factor
            best = max(best, self.last_bound_ns)
            durations = solution.values[1 : 1 + len(self._duration_classes)]
            self.durations_ns = np.zeros_like(self.durations_ns)
            self.durations_ns[self._duration_classes] = np.maximum(np.floor(durations / self.factor), 0)
            passes = passes - 1 if passes else passes
            decided = best > enough_ns or (deciding and self.value_ns <= enough_ns)
            if self.complete or decided or passes == 0:
                return best

    def _price(self, masks: list[Mask], duals: Floats) -> bool:
        """Enter the columns that would improve the program; returns whether there are any.

        `slack` becomes the most negative reduced cost of each group.
        """
        self.reduced_costs, self.slack = [], []
        entered = False
        for group, matrix in enumerate(self._matrices):
            allowed = np.flatnonzero(masks[group])
            if len(allowed) < _FEW * len(masks[group]):
                reduced = np.full(len(masks[group]), np.inf)
                reduced[allowed] = -matrix.price(duals, allowed) - duals[len(self._row_lower) + group]
            else:
                reduced = -matrix.price(duals) - duals[len(self._row_lower) + group]
            self.reduced_costs.append(reduced)
            candidates = np.where(masks[group], reduced, np.inf)
            lowest = float(candidates.min())
            self.slack.append(min(0.0, lowest))
            if lowest < -_IMPROVING:
                size = min(_PRICED_AT_ONCE, len(candidates) - 1)
                some = np.argpartition(candidates, size)[: size + 1] if size else np.zeros(1, dtype=np.int64)
                new = [
                    index
                    for index in some.tolist()
                    if candidates[index] < -_IMPROVING and index not in self._present[group]
                ]
                if new:
                    self._enter(group, new)
                    entered = True
        return entered

    def _close(self, masks: list[Mask], allowed: dict[int, Mask] | None) -> NDArray[np.int32]:
        """Fix the present columns that are not allowed to zero; returns them."""
        closed = [
            column
            for group in (allowed or {})
            for index, column in self._present[group].items()
            if self.alive[group][index] and not masks[group][index]
        ]
        shut = np.array(closed, dtype=np.int32)
        if len(shut):
            self._program.set_upper(shut, 0.0)
        return shut

    # -- shrinking -----------------------------------------------------------------------------------------------

    def drop(self, group: int, dead: Mask) -> int:
        """Remove columns for good; returns the number of those that were alive."""
        dead = dead & self.alive[group]
        columns = np.array([c for index, c in self._present[group].items() if dead[index]], dtype=np.int32)
        if len(columns):
            self._program.set_upper(columns, 0.0)
        self.alive[group] &= ~dead
        return int(dead.sum())

    def drop_by_reduced_cost(self, target_ns: float) -> int:
        """Remove columns whose use alone would lift the last bound over the target; returns their number."""
        room = (target_ns - self.last_bound_ns) * self.factor + _ROOM
        return sum(
            self.drop(group, reduced - self.slack[group] > room) for group, reduced in enumerate(self.reduced_costs)
        )

    def may_meet(self, group: int, target_ns: float) -> Mask:
        """Return which columns of a group, of those allowed in the last solve, plans of at most a target may have."""
        room = (target_ns - self.last_bound_ns) * self.factor + _ROOM
        return self.reduced_costs[group] - self.slack[group] <= room

    def mixture(self, group: int, used: float) -> tuple[NDArray[np.int32], Floats]:
        """Return the columns of a group of which the last program takes at least a share `used`, and their shares."""
        entered = np.array(list(self._present[group].items()), dtype=np.int32).reshape(-1, 2)
        solved = entered[entered[:, 1] < len(self._values)]
        shares = self._values[solved[:, 1]]
        return solved[shares >= used, 0], shares[shares >= used]

    def too_full(self, chosen: Sequence[int]) -> list["TooFull"]:
        """Return by how much less keepers must hold, or others have with them, than with a column of each group."""
        over = []
        for place, keeper in enumerate(self._layout.keepers):
            row = self._layout.memory + place
            held = {
                group: int(matrix.beside[row][column])
                for group, (matrix, column) in enumerate(zip(self._matrices, chosen, strict=True))
                if row in matrix.beside
            }
            if sum(held.values()) > int(self.problem.limits[keeper] - self.problem.constants[keeper]):
                over.append(TooFull(row=row, held=held))
        return over

    def program(
        self, upper_ns: float, waits: Sequence[LongestPaths] = (), too_full: Sequence["TooFull"] = ()
    ) -> tuple[Program, list[range]]:
        """Return the integer program over the alive columns with a makespan of at most `upper_ns`.

        `waits` are paths whose messages take as long as their cut says; in one group at least of each of `too_full`, a
        column holds less. With the program come its columns of each group.
        """
        program = Program()
        program.column(cost=1.0, upper=upper_ns * self.factor)
        durations = program.columns(len(self._duration_classes))
        members = [program.columns(len(group), upper=1.0, integer=True) for group in self.groups]
        for own in members:
            program.row(np.array(own), np.ones(len(own)), lower=1.0, upper=1.0)
        fixed = self._fixed_rows(durations, members)
        for row, (lower, upper) in enumerate(zip(self._row_lower, self._row_upper, strict=True)):
            self._add_row(program, fixed, row, lower, upper)
        chains = self.paths.chains()
        targets = np.unique(chains.ends[:, 1])
        ends = program.columns(len(targets))
        rows = chain_rows(chains, targets, duration_classes=self._duration_classes, first_end=ends.start)
        for row, message in enumerate(chains.messages_ns):
            self._add_row(program, rows, row, message * self.factor)
        rows = sink_rows(chains, targets, first_end=ends.start)
        for row in range(len(rows)):
            self._add_row(program, rows, row, 0.0)
        self._add_waits(program, waits, durations, members)
        for full in too_full:
            as_full = np.concatenate(
                [
                    np.array(members[group])[self._matrices[group].beside[full.row] >= held]
                    for group, held in full.held.items()
                ]
            )
            program.row(as_full, np.ones(len(as_full)), lower=-INFINITY, upper=len(full.held) - 1.0)
        return program, members

    def _add_waits(
        self, program: Program, waits: Sequence[LongestPaths], durations: range, members: list[range]
    ) -> None:
        """Add ``makespan >= durations + messages`` for each of these paths, with the messages of the cut."""
        border_columns: dict[int, range] = {}
        for counts, message_counts, _messages_ns in (path for paths in waits for path in zip(*paths, strict=True)):
            sent = sent_across(message_counts)
            indices = [np.zeros(1, dtype=np.int64), np.array(durations)]
            entries = [np.ones(1), -counts[self._duration_classes].astype(np.float64)]
            for cell in np.flatnonzero(sent).tolist():
                if cell not in border_columns:
                    border_columns[cell] = self._add_border(program, cell, members)
                indices.append(np.array(border_columns[cell]))
                entries.append(-sent[cell] * self.problem.border_times_ns * self.factor)
            program.row(np.concatenate(indices), np.concatenate(entries), lower=0.0)

    def _add_border(self, program: Program, cell: int, members: list[range]) -> range:
        """Return new columns that are one at the border behind a cell, one for each border between layers."""
        places = program.columns(self.problem.num_layers + 1, upper=1.0, integer=True)
        program.row(np.array(places), np.ones(len(places)), lower=1.0, upper=1.0)
        layers = np.concatenate([group.layers_until(cell) for group in self.groups])
        indices = np.concatenate((np.array(places), *map(np.array, members)))
        entries = np.concatenate((np.arange(len(places)), -layers)).astype(np.float64)
        program.row(indices, entries, lower=0.0, upper=0.0)
        return places

    def _fixed_rows(self, durations: range, members: list[range]) -> Packed:
        """Return the rows of the layout over the program columns of durations and of the groups."""
        parts: list[tuple[NDArray[Any], ...]] = [
            (np.arange(len(durations)), np.array(durations), np.full(len(durations), -1.0))
        ]
        for own, matrix in zip(members, self._matrices, strict=True):
            packed = matrix.columns(np.arange(len(own)))
            parts.append((packed.indices, np.repeat(np.array(own), np.diff(packed.starts)), packed.entries))
        rows, columns, entries = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(len(self._row_lower) + 1))
        return Packed(starts=starts, indices=columns[order], entries=entries[order])

    @staticmethod
    def _add_row(program: Program, rows: Packed, row: int, lower: float, upper: float = INFINITY) -> None:
        own = slice(rows.starts[row], rows.starts[row + 1])
        program.row(rows.indices[own], rows.entries[own], lower=lower, upper=upper)

    def options_left(self) -> list[CellOptions]:
        """Return the options of each cell that are still alive, where cells are chosen one by one."""
        left = []
        for group in self.groups:
            (options,) = group.options
            left.append(options.select(np.isin(np.arange(len(options)), group.chosen[:, 0])))
        return left

    def compress(self) -> None:
        """Remove dead columns from memory and rebuild the program."""
        for group, alive in enumerate(self.alive):
            new_index = np.cumsum(alive) - 1
            self._entered[group] = [int(new_index[index]) for index in self._entered[group] if alive[index]]
            self.groups[group] = self.groups[group].select(alive)
            self._matrices[group].select(alive)
            self.alive[group] = np.ones(len(self.groups[group]), dtype=bool)
        self.rebuild()
