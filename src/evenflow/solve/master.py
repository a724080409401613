"""The linear program of the proof, over columns that are generated as they are needed.

    minimise   makespan
    subject to one column of every group
               cell durations = those of the chosen columns
               layers are conserved from cell to cell (or, all layers equal, in number)
               memory of every rank, where cells are chosen one by one
               the chains of the critical paths: end[target] >= end[source] + durations

Its value, after pricing, is a lower bound for every plan whose columns are all allowed. Times are scaled so that the
incumbent takes `SCALE`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS
from evenflow.simulate.costs import Integers
from evenflow.solve.backends.highs import Program
from evenflow.solve.columns import Group
from evenflow.solve.paths import CriticalPaths
from evenflow.solve.problem import Problem

SCALE = 1000.0
_GIGABYTE = 2**30
_PENALTY = 100 * SCALE
"""Price of leaving a group without a column or a layer out: keeps the program feasible while columns are missing."""
_PRICED_AT_ONCE = 40

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class _Matrix:
    """The rows that the columns of one group touch: some shared by all, and two a cell for the flow of layers."""

    def __init__(self, problem: Problem, group: Group, first_flow_row: int, memory_rows: int) -> None:
        num_cells = problem.num_cells
        picked = [(options, group.chosen[:, at]) for at, options in enumerate(group.options)]
        scaled = [*(options.forward_ns[own] for options, own in picked),
                  *(options.backward_ns[own] for options, own in picked)]
        rows = [*(NUM_OPS * cell for cell in group.cells), *(NUM_OPS * cell + 1 for cell in group.cells)]
        shared = [np.asarray(column, dtype=np.float64) for column in scaled]
        self.num_times = len(shared)
        self.flow_rows: NDArray[np.int64] | None = None
        if problem.network.is_uniform:
            shared.append(np.sum([options.layers[own] for options, own in picked], axis=0).astype(np.float64))
            rows.append(first_flow_row)
        else:
            # Row (cell, layer) says: as much ends there in the cell before as begins there in the cell.
            stride = problem.num_layers + 1
            begins = [first_flow_row + (cell - 1) * stride + options.start[own] if cell else np.full(len(own), -1)
                      for cell, (options, own) in zip(group.cells, picked, strict=True)]
            ends = [first_flow_row + cell * stride + options.start[own] + options.layers[own]
                    if cell < num_cells - 1 else np.full(len(own), -1)
                    for cell, (options, own) in zip(group.cells, picked, strict=True)]
            self.flow_rows = np.stack([*begins, *ends], axis=1)
            self.flow_signs = np.concatenate((np.ones(len(begins)), -np.ones(len(ends))))
        if memory_rows >= 0:
            rank, chunk = group.cells[0] % problem.num_ranks, group.cells[0] // problem.num_ranks
            options, own = picked[0]
            for index, vector in enumerate(problem.live[rank]):
                needed = options.parameter_bytes[own] + int(vector[chunk]) * options.activation_bytes[own]
                shared.append(needed / _GIGABYTE)
                rows.append(memory_rows + index)
        self.shared = np.stack(shared, axis=1)
        self.rows = np.array(rows, dtype=np.int64)

    def select(self, keep: Mask) -> None:
        self.shared = self.shared[keep]
        if self.flow_rows is not None:
            self.flow_rows = self.flow_rows[keep]

    def column(self, index: int) -> tuple[NDArray[np.int32], Floats]:
        """Row indices and entries of one column (its group's own row apart)."""
        rows, entries = self.rows, self.shared[index]
        if self.flow_rows is not None:
            real = self.flow_rows[index] >= 0
            rows = np.concatenate((rows, self.flow_rows[index][real]))
            entries = np.concatenate((entries, self.flow_signs[real]))
        return rows.astype(np.int32), entries

    def price(self, duals: Floats) -> Floats:
        """``duals @ column`` for every column; `duals` has one more zero at its end for index -1."""
        total: Floats = self.shared @ duals[self.rows]
        if self.flow_rows is not None:
            total += duals[self.flow_rows] @ self.flow_signs
        return total


class Master:
    """The program with its state: which columns are alive, which are in it, which are allowed at the moment."""

    def __init__(self, problem: Problem, groups: list[Group], paths: CriticalPaths, scale_ns: float) -> None:
        self.problem, self.groups, self.paths = problem, groups, paths
        self.factor = SCALE / scale_ns
        """Scaled time a ns."""
        num_durations = NUM_OPS * problem.num_cells
        flow = 1 if problem.network.is_uniform else (problem.num_cells - 1) * (problem.num_layers + 1)
        memory = num_durations + flow
        by_cell = len(groups[0].cells) < problem.num_chunks
        self._matrices = []
        memory_starts = memory + np.concatenate(([0], np.cumsum([len(vectors) for vectors in problem.live])))
        for group in groups:
            rank = group.cells[0] % problem.num_ranks
            matrix = _Matrix(problem, group, num_durations, int(memory_starts[rank]) if by_cell else -1)
            matrix.shared[:, : matrix.num_times] *= self.factor
            self._matrices.append(matrix)
        room = (problem.limit - problem.network.constant_bytes) / _GIGABYTE
        self._row_lower = np.zeros(num_durations + flow)
        self._row_upper = np.zeros(num_durations + flow)
        if problem.network.is_uniform:
            self._row_lower[num_durations] = self._row_upper[num_durations] = problem.num_layers
        if by_cell:
            rows = int(memory_starts[-1] - memory)
            self._row_lower = np.concatenate((self._row_lower, np.full(rows, -np.inf)))
            self._row_upper = np.concatenate((self._row_upper, np.full(rows, room)))
        self.alive: list[Mask] = [np.ones(len(group), dtype=bool) for group in groups]
        self._present: list[dict[int, int]] = [{} for _ in groups]
        """Program column by column index, of each group."""
        self._entered: list[list[int]] = [[] for _ in groups]
        self.durations_ns: Integers = np.zeros(num_durations, dtype=np.int64)
        self.last_bound_ns = 0.0
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
        if self.problem.network.is_uniform:
            penalties += [(num_durations, 1.0), (num_durations, -1.0)]
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

    def solve(self, allowed: dict[int, Mask] | None = None, *, enough_ns: float = float("inf")) -> float:
        """A lower bound in ns on plans made of alive columns (of `allowed` ones in the groups given).

        Stops early once the bound exceeds `enough_ns`. Returns infinity when there is none at all. Leaves
        `durations_ns` and the reduced costs of the last program for the caller.
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
                solution = self._highs.getSolution()
                duals = np.append(np.array(solution.row_dual), 0.0)
                missing = self._price(masks, duals)
                self.last_bound_ns = (value + sum(self.slack)) / self.factor
                best = max(best, self.last_bound_ns)
                values = np.array(solution.col_value[1 : 1 + len(self.durations_ns)])
                self.durations_ns = np.maximum(np.floor(values / self.factor), 0).astype(np.int64)
                if not missing or best > enough_ns:
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
