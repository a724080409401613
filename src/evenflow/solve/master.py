"""The linear program of the proof, over columns that are generated as they are needed.

    minimise   makespan
    subject to one column of every group
               cell durations = those of the chosen columns
               every run of equal layers is held as often as it has layers, and cells follow the order of runs
               memory of every rank, where cells are chosen one by one
               the chains of the critical paths: end[target] >= end[source] + durations

Its value, after pricing, is a lower bound for every plan whose columns are all allowed. Times are scaled so that the
incumbent takes `SCALE`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate.costs import Integers
from evenflow.solve.backends.highs import Program
from evenflow.solve.columns import Group
from evenflow.solve.options import merged_runs
from evenflow.solve.paths import CriticalPaths
from evenflow.solve.problem import Problem

SCALE = 1000.0
_GIGABYTE = 2**30
_PENALTY = 100 * SCALE
"""Price of leaving a group without a column or a layer out: keeps the program feasible while columns are missing."""
_PRICED_AT_ONCE = 40
_ALL_AT_ONCE = 2000
"""Up to so many columns all enter the program at once."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Where the kinds of rows begin, durations being first, and how many there are in all."""

    num_cells: int
    run_sizes: tuple[int, ...]
    memory_starts: tuple[int, ...] | None
    """First memory row of every rank, where memory has rows."""
    total: int

    @property
    def conserve(self) -> int:
        """One row a run: its layers are all held."""
        return NUM_OPS * self.num_cells

    @property
    def order(self) -> int:
        """For every cell but the last and every run j but the first: if it ends in run j or later, the next cell
        begins there or later."""
        return self.conserve + len(self.run_sizes)

    @property
    def memory(self) -> int:
        """One row a live vector of every rank."""
        return self.order + (self.num_cells - 1) * (len(self.run_sizes) - 1)


class _Matrix:
    """The columns of one group. Entries in rows of durations and memory are kept; those that place layers in runs are
    intervals of rows, which prefix sums price."""

    def __init__(self, problem: Problem, group: Group, rows: _Rows, factor: float) -> None:
        self._layout = rows
        self._cells = group.cells
        picked = [(options, group.chosen[:, at]) for at, options in enumerate(group.options)]
        shared = [*(options.forward_ns[own] * factor for options, own in picked),
                  *(options.backward_ns[own] * factor for options, own in picked)]
        shared_rows = [*(NUM_OPS * cell + Op.F for cell in group.cells), *(NUM_OPS * cell + Op.B for cell in group.cells)]
        if rows.memory_starts is not None:
            rank, chunk = group.cells[0] % problem.num_ranks, group.cells[0] // problem.num_ranks
            options, own = picked[0]
            for index, vector in enumerate(problem.live[rank]):
                needed = options.parameter_bytes[own] + int(vector[chunk]) * options.activation_bytes[own]
                shared.append(needed / _GIGABYTE)
                shared_rows.append(rows.memory_starts[rank] + index)
        self._shared = np.stack(shared, axis=1)
        self._rows = np.array(shared_rows, dtype=np.int64)
        self._places = np.stack([
            np.stack([getattr(options, name)[own] for name in ("first_run", "last_run", "in_first", "in_last")])
            for options, own in picked
        ]).astype(np.int32)
        """Shape [num_cells_of_group, 4, num_columns]."""

    def select(self, keep: Mask) -> None:
        """Keep some columns."""
        self._shared = self._shared[keep]
        self._places = np.ascontiguousarray(self._places[:, :, keep])

    def column(self, index: int) -> tuple[NDArray[np.int32], Floats]:
        """Row indices and entries of one column (its group's own row apart)."""
        layout = self._layout
        entries = dict(zip(self._rows.tolist(), self._shared[index].tolist(), strict=True))
        width = len(layout.run_sizes) - 1
        for cell, (first, last, in_first, in_last) in zip(self._cells, self._places[:, :, index].tolist(), strict=True):
            held = [(first, in_first), (last, in_last), *((run, layout.run_sizes[run]) for run in range(first + 1, last))]
            for run, layers in held:
                if layers:
                    entries[layout.conserve + run] = entries.get(layout.conserve + run, 0.0) + layers
            if cell < layout.num_cells - 1:
                for run in range(last):
                    entries[layout.order + cell * width + run] = 1.0
            if cell:
                for run in range(first):
                    row = layout.order + (cell - 1) * width + run
                    entries[row] = entries.get(row, 0.0) - 1.0
        return np.array(list(entries), dtype=np.int32), np.array(list(entries.values()))

    def price(self, duals: Floats) -> Floats:
        """``duals @ column`` for every column."""
        layout = self._layout
        total: Floats = self._shared @ duals[self._rows]
        num_runs = len(layout.run_sizes)
        each = duals[layout.conserve : layout.conserve + num_runs]
        whole = np.concatenate(([0.0], np.cumsum(each * layout.run_sizes)))
        order = duals[layout.order : layout.memory].reshape(layout.num_cells - 1, num_runs - 1)
        reaching = np.concatenate((np.zeros((layout.num_cells - 1, 1)), np.cumsum(order, axis=1)), axis=1)
        for cell, (first, last, in_first, in_last) in zip(self._cells, self._places, strict=True):
            total += each[first] * in_first + each[last] * in_last
            if num_runs > 1:
                total += np.where(last > first, whole[last] - whole[np.minimum(first + 1, last)], 0.0)
                if cell < layout.num_cells - 1:
                    total += reaching[cell][last]
                if cell:
                    total -= reaching[cell - 1][first]
        return total


class Master:
    """The program with its state: which columns are alive, which are in it, which are allowed at the moment."""

    def __init__(self, problem: Problem, groups: list[Group], paths: CriticalPaths, scale_ns: float) -> None:
        self.problem, self.groups, self.paths = problem, groups, paths
        self.factor = SCALE / scale_ns
        """Scaled time a ns."""
        num_durations = NUM_OPS * problem.num_cells
        by_cell = len(groups[0].cells) < problem.num_chunks
        run_sizes = tuple(run.count for run in merged_runs(problem))
        placing = len(run_sizes) + (problem.num_cells - 1) * (len(run_sizes) - 1)
        num_memory = sum(map(len, problem.live)) if by_cell else 0
        starts = num_durations + placing + np.concatenate(([0], np.cumsum([len(vectors) for vectors in problem.live])))
        self._layout = _Rows(
            num_cells=problem.num_cells, run_sizes=run_sizes,
            memory_starts=tuple(starts.tolist()) if by_cell else None,
            total=num_durations + placing + num_memory,
        )
        self._matrices = [_Matrix(problem, group, self._layout, self.factor) for group in groups]
        room = (problem.limit - problem.network.constant_bytes) / _GIGABYTE
        order = (self._layout.memory - self._layout.order)
        self._row_lower = np.concatenate((np.zeros(num_durations), run_sizes, np.full(order + num_memory, -np.inf)))
        self._row_upper = np.concatenate((np.zeros(num_durations), run_sizes, np.zeros(order), np.full(num_memory, room)))
        self.alive: list[Mask] = [np.ones(len(group), dtype=bool) for group in groups]
        self._present: list[dict[int, int]] = [{} for _ in groups]
        """Program column by column index, of each group."""
        self._entered: list[list[int]] = [[] for _ in groups]
        self._is_small = sum(map(len, groups)) <= _ALL_AT_ONCE
        if self._is_small:
            self._entered = [list(range(len(group))) for group in groups]
        self.durations_ns: Integers = np.zeros(num_durations, dtype=np.int64)
        self.last_bound_ns = 0.0
        self.value_ns = 0.0
        """Value of the last program: with all columns priced, the bound."""
        self.complete = False
        self.reduced_costs: list[Floats] = []
        self.slack: list[float] = []
        self.rebuild()

    # -- building ------------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Build the program anew with the present columns and all chains of the paths."""
        import highspy

        self._kinds = highspy
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        if not self._is_small:
            highs.setOptionValue("simplex_strategy", 4)  # primal: most solves follow new columns
        infinity = highspy.kHighsInf
        num_durations = NUM_OPS * self.problem.num_cells
        fixed_rows = len(self._row_lower)
        num_groups = len(self.groups)
        # rows: durations, flow, memory, one a group
        lower = np.concatenate((np.maximum(self._row_lower, -infinity), np.ones(num_groups)))
        upper = np.concatenate((self._row_upper, np.ones(num_groups)))
        none_int, none_float = np.zeros(0, dtype=np.int32), np.zeros(0)
        highs.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), dtype=np.int32), none_int, none_float)
        # columns: makespan, durations, penalties, ends of junctions, then the groups' columns
        highs.addCol(1.0, 0.0, infinity, 0, none_int, none_float)
        self._add_columns(highs, np.zeros(num_durations), [
            (np.array([row], dtype=np.int32), np.array([-1.0])) for row in range(num_durations)
        ])
        penalties = [(fixed_rows + group, 1.0) for group in range(num_groups)]
        for run in range(len(self._layout.run_sizes)):
            penalties += [(self._layout.conserve + run, 1.0), (self._layout.conserve + run, -1.0)]
        self._add_columns(highs, np.full(len(penalties), _PENALTY), [
            (np.array([row], dtype=np.int32), np.array([sign])) for row, sign in penalties
        ])
        self._add_chains(highs, 1 + num_durations + len(penalties))
        self._highs = highs
        entered = [list(indices) for indices in self._entered]
        self._present = [{} for _ in self.groups]
        self._entered = [[] for _ in self.groups]
        for group, indices in enumerate(entered):
            self._enter(group, np.array([index for index in indices if self.alive[group][index]], dtype=np.int64))

    def _add_chains(self, highs: Any, first: int) -> None:
        chains = self.paths.chains()
        junctions = sorted({chain.target for chain in chains})
        column = {position: first + index for index, position in enumerate(junctions)}
        empty = [(np.zeros(0, dtype=np.int32), np.zeros(0))] * len(junctions)
        self._add_columns(highs, np.zeros(len(junctions)), empty)
        starts, indices, entries, lower = [0], [], [], []
        for chain in chains:
            indices += [1 + kind for kind in chain.classes] + [column[chain.target]]
            entries += [-float(count) for count in chain.classes.values()] + [1.0]
            if chain.source:
                indices.append(column[chain.source])
                entries.append(-1.0)
            lower.append(chain.message_ns * self.factor)
            starts.append(len(indices))
        for sink in self.paths.sinks:
            indices += [0, column[sink]]
            entries += [1.0, -1.0]
            lower.append(0.0)
            starts.append(len(indices))
        highs.addRows(
            len(lower), np.array(lower), np.full(len(lower), self._kinds.kHighsInf), len(indices),
            np.array(starts[:-1], dtype=np.int32), np.array(indices, dtype=np.int32), np.array(entries),
        )

    def _add_columns(self, highs: Any, costs: Floats, columns: list[tuple[NDArray[np.int32], Floats]]) -> None:
        if not columns:
            return
        lengths = [len(rows) for rows, _ in columns]
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int32)
        highs.addCols(
            len(columns), costs, np.zeros(len(columns)), np.full(len(columns), self._kinds.kHighsInf), sum(lengths),
            starts, np.concatenate([rows for rows, _ in columns]), np.concatenate([entries for _, entries in columns]),
        )

    def _enter(self, group: int, indices: Integers) -> None:
        """Put columns of a group into the program."""
        first = self._highs.getNumCol()
        own_row = len(self._row_lower) + group
        columns = []
        for index in indices.tolist():
            rows, entries = self._matrices[group].column(index)
            columns.append((np.append(rows, np.int32(own_row)), np.append(entries, 1.0)))
            self._present[group][index] = first + len(columns) - 1
            self._entered[group].append(index)
        self._add_columns(self._highs, np.zeros(len(columns)), columns)

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(self, allowed: dict[int, Mask] | None = None, *, enough_ns: float = float("inf"),
              deciding: bool = False, passes: int | None = None) -> float:
        """A lower bound in ns on plans made of alive columns (of `allowed` ones in the groups given).

        Stops early once the bound exceeds `enough_ns`, and, if only that matters (`deciding`), once it is clear that
        it will not, or after some `passes` of pricing (then `complete` is false and the bound weak but valid). Returns
        infinity when there is no plan at all. Leaves `durations_ns` and the reduced costs of the
        last program for the caller.
        """
        masks = [self.alive[g] if not allowed or g not in allowed else allowed[g] for g in range(len(self.groups))]
        if any(not mask.any() for mask in masks):
            return float("inf")
        closed = self._close(masks, allowed)
        best = -np.inf
        try:
            while True:
                self._highs.run()
                status = self._highs.getModelStatus()
                if status == self._kinds.HighsModelStatus.kInfeasible:
                    return float("inf")
                if status != self._kinds.HighsModelStatus.kOptimal:
                    return max(best, 0.0)
                value = self._highs.getInfo().objective_function_value
                self.value_ns = value / self.factor
                solution = self._highs.getSolution()
                duals = np.array(solution.row_dual)
                missing = self._price(masks, duals)
                self.last_bound_ns = (value + sum(self.slack)) / self.factor
                best = max(best, self.last_bound_ns)
                values = np.array(solution.col_value[1 : 1 + len(self.durations_ns)])
                self.durations_ns = np.maximum(np.floor(values / self.factor), 0).astype(np.int64)
                self.complete = not missing
                passes = passes - 1 if passes else passes
                if not missing or best > enough_ns or (deciding and value / self.factor <= enough_ns) or passes == 0:
                    return best
        finally:
            if len(closed):
                self._set_upper(closed, self._kinds.kHighsInf)

    def _price(self, masks: list[Mask], duals: Floats) -> bool:
        """Enter the columns that would improve the program; `slack` is each group's most negative reduced cost."""
        self.reduced_costs, self.slack = [], []
        entered = False
        for group, matrix in enumerate(self._matrices):
            reduced = -matrix.price(duals) - duals[len(self._row_lower) + group]
            self.reduced_costs.append(reduced)
            candidates = np.where(masks[group], reduced, np.inf)
            lowest = float(candidates.min())
            self.slack.append(min(0.0, lowest))
            if lowest < -1e-7 * SCALE:
                size = min(_PRICED_AT_ONCE, len(candidates) - 1)
                some = np.argpartition(candidates, size)[: size + 1] if size else np.zeros(1, dtype=np.int64)
                new = np.array([i for i in some.tolist()
                                if candidates[i] < -1e-7 * SCALE and i not in self._present[group]], dtype=np.int64)
                if len(new):
                    self._enter(group, new)
                    entered = True
        return entered

    def _close(self, masks: list[Mask], allowed: dict[int, Mask] | None) -> NDArray[np.int32]:
        """Shut the present columns that are not allowed at the moment; returns them."""
        closed = [
            column for group in (allowed or {}) for index, column in self._present[group].items()
            if self.alive[group][index] and not masks[group][index]
        ]
        shut = np.array(closed, dtype=np.int32)
        if len(shut):
            self._set_upper(shut, 0.0)
        return shut

    def _set_upper(self, columns: NDArray[np.int32], upper: float) -> None:
        self._highs.changeColsBounds(len(columns), columns, np.zeros(len(columns)), np.full(len(columns), upper))

    # -- shrinking -----------------------------------------------------------------------------------------------

    def drop(self, group: int, dead: Mask) -> int:
        """Remove columns for good; returns how many were alive."""
        dead = dead & self.alive[group]
        columns = np.array([c for index, c in self._present[group].items() if dead[index]], dtype=np.int32)
        if len(columns):
            self._set_upper(columns, 0.0)
        self.alive[group] &= ~dead
        return int(dead.sum())

    def drop_by_reduced_cost(self, target_ns: float) -> int:
        """Remove columns whose use alone would lift the last bound over the target."""
        room = (target_ns - self.last_bound_ns) * self.factor + 1e-6 * SCALE
        return sum(self.drop(group, reduced - self.slack[group] > room)
                   for group, reduced in enumerate(self.reduced_costs))

    def program(self, upper_ns: float) -> tuple[Program, list[range]]:
        """The program over the alive columns with whole choices, its makespan at most `upper_ns`.

        Returns it with the program columns of every group.
        """
        program = Program()
        makespan = program.column(cost=1.0, upper=upper_ns * self.factor)
        durations = program.columns(len(self.durations_ns))
        members = [program.columns(len(group), upper=1.0, integer=True) for group in self.groups]
        row_indices: list[list[int]] = [[] for _ in self._row_lower]
        row_entries: list[list[float]] = [[] for _ in self._row_lower]
        for row, duration in enumerate(durations):
            row_indices[row].append(duration)
            row_entries[row].append(-1.0)
        for own, matrix in zip(members, self._matrices, strict=True):
            program.row(np.array(own), np.ones(len(own)), lower=1.0, upper=1.0)
            for index, column in enumerate(own):
                rows, entries = matrix.column(index)
                for row, entry in zip(rows.tolist(), entries.tolist(), strict=True):
                    row_indices[row].append(column)
                    row_entries[row].append(entry)
        for row, (indices, entries) in enumerate(zip(row_indices, row_entries, strict=True)):
            if indices:
                program.row(indices, entries, lower=self._row_lower[row], upper=self._row_upper[row])
        ends: dict[int, int] = {}
        for chain in self.paths.chains():
            ends.setdefault(chain.target, program.column())
        for chain in self.paths.chains():
            indices = [ends[chain.target], *(durations[kind] for kind in chain.classes)]
            entries = [1.0, *(-float(count) for count in chain.classes.values())]
            if chain.source:
                indices.append(ends[chain.source])
                entries.append(-1.0)
            program.row(indices, entries, lower=chain.message_ns * self.factor)
        for sink in self.paths.sinks:
            program.row([makespan, ends[sink]], [1.0, -1.0], lower=0.0)
        return program, members

    def compress(self) -> None:
        """Forget dead columns."""
        for group, alive in enumerate(self.alive):
            new_index = np.cumsum(alive) - 1
            self._entered[group] = [int(new_index[index]) for index in self._entered[group] if alive[index]]
            self.groups[group] = self.groups[group].select(alive)
            self._matrices[group].select(alive)
            self.alive[group] = np.ones(len(self.groups[group]), dtype=bool)
        self.rebuild()
