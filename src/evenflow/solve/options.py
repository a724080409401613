"""What a single cell can be: a run of layers and its best recompute choices.

For a cell only its backward time and its activation memory matter beside its layers, so of all recompute counts the
Pareto-minimal ones are kept: no other choice is both faster and smaller.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate.costs import Integers
from evenflow.solve.problem import Problem

Choice = tuple[int, int, tuple[int, ...]]
"""Backward ns, activation bytes, layers by kind."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellOptions:
    """All sensible contents of one cell, head or tail included; arrays share their first axis."""

    start: Integers
    """First layer; 0 where all layers are equal and it does not matter."""
    layers: Integers
    forward_ns: Integers
    backward_ns: Integers
    activation_bytes: Integers
    parameter_bytes: Integers
    faster: Integers
    """Index of the option with the same layers and the next shorter backward (and more memory), or -1."""
    counts: NDArray[np.int32]
    """Layers by kind, shape [num_options, num_kinds]."""

    def __len__(self) -> int:
        return len(self.start)

    def select(self, keep: NDArray[np.bool_]) -> "CellOptions":
        """The options where `keep` holds; a dropped `faster` option is replaced by the next that is left."""
        new_index = np.cumsum(keep) - 1
        faster = self.faster.copy()
        while True:
            lost = (faster >= 0) & ~keep[faster]
            if not lost.any():
                break
            faster[lost] = self.faster[faster[lost]]
        faster = np.where(faster >= 0, new_index[faster], -1)[keep]
        return CellOptions(
            start=self.start[keep], layers=self.layers[keep], forward_ns=self.forward_ns[keep],
            backward_ns=self.backward_ns[keep], activation_bytes=self.activation_bytes[keep],
            parameter_bytes=self.parameter_bytes[keep], faster=faster, counts=self.counts[keep],
        )


def cell_options(problem: Problem, cell: int, *, starts: range, max_load_ns: int) -> CellOptions:
    """The options of `cell` whose first layer is in `starts` and whose forward and backward take at most
    `max_load_ns` together. Where all layers are equal, `starts` is not used."""
    sums, network = problem.sums, problem.network
    first, last = cell == 0, cell == problem.num_cells - 1
    blocks = [block for block, here in ((network.head, first), (network.tail, last)) if here]
    fixed_forward = sum(block.forward_ns for block in blocks)
    fixed_backward = sum(block.backward_ns for block in blocks)
    fixed_activation = sum(block.activation_bytes for block in blocks)
    fixed_parameters = sum(block.parameter_bytes for block in blocks)
    rows: list[tuple[int, ...]] = []
    counts: list[tuple[int, ...]] = []
    for start in range(1) if network.is_uniform else starts:
        for layers, choices in _choices(problem, start, last and not network.is_uniform, max_load_ns):
            end = start + layers
            forward = int(sums.forward_ns[end] - sums.forward_ns[start]) + fixed_forward
            parameters = int(sums.parameter_bytes[end] - sums.parameter_bytes[start]) + fixed_parameters
            previous = -1
            for backward, activation, by_kind in choices:
                if forward + backward + fixed_backward > max_load_ns:
                    break
                rows.append((start, layers, forward, backward + fixed_backward, activation + fixed_activation,
                             parameters, previous))
                previous = len(rows) - 1
                counts.append(by_kind)
    table = np.array(rows, dtype=np.int64).reshape(-1, 7)
    return CellOptions(
        start=table[:, 0], layers=table[:, 1], forward_ns=table[:, 2], backward_ns=table[:, 3],
        activation_bytes=table[:, 4], parameter_bytes=table[:, 5], faster=table[:, 6],
        counts=np.array(counts, dtype=np.int32).reshape(-1, len(problem.kinds)),
    )


def _choices(problem: Problem, start: int, to_the_end: bool, max_load_ns: int) -> list[tuple[int, list[Choice]]]:
    """For every number of layers from `start` on, its Pareto-minimal recompute choices, shortest backward first."""
    families = [
        tuple(kind for kind in range(len(problem.kinds)) if kind != banned)
        for banned in (problem.exclusive_kinds if problem.exclusive_kinds[0] >= 0 else (-1,))
    ]
    by_family = [_family_choices(problem, start, kinds, max_load_ns) for kinds in families]
    result = []
    for layers in range(max(len(rows) for rows in by_family)):
        if layers < problem.min_layers or (to_the_end and start + layers != problem.num_layers):
            continue
        merged = [choice for rows in by_family if layers < len(rows) for choice in rows[layers]]
        result.append((layers, _pareto(merged)))
    return result


def _family_choices(problem: Problem, start: int, kinds: tuple[int, ...], max_load_ns: int) -> list[list[Choice]]:
    """Choices by number of layers when a cell may mix all of `kinds`.

    The layers of a cell stand in the order of the kinds, so the choices of [start, end) that use the kinds up to k
    extend those of a shorter run that use the kinds before k.
    """
    sums = problem.sums
    forward, backward, activation = sums.forward_ns, sums.backward_ns, sums.activation_bytes
    nothing = (0,) * len(problem.kinds)
    longest = problem.num_layers - start
    table: list[list[list[Choice]]] = []  # [layers][position in kinds]: last layer's kind is at most that
    plain = backward[-1]
    for layers in range(longest + 1):
        end = start + layers
        if layers and int(forward[end] - forward[start] + plain[end] - plain[start]) > max_load_ns:
            break
        row: list[list[Choice]] = []
        for position, kind in enumerate(kinds):
            choices = list(row[position - 1]) if position else ([] if layers else [(0, 0, nothing)])
            if layers:
                more_time = int(backward[kind, end] - backward[kind, end - 1])
                more_memory = int(activation[kind, end] - activation[kind, end - 1])
                choices += [
                    (time + more_time, memory + more_memory, counts[:kind] + (counts[kind] + 1,) + counts[kind + 1 :])
                    for time, memory, counts in table[layers - 1][position]
                ]
            elif position:
                choices = [(0, 0, nothing)]
            row.append(_pareto(choices))
        table.append(row)
    return [row[-1] for row in table]


def _pareto(choices: list[Choice]) -> list[Choice]:
    """Without those that another beats in time and memory; shortest backward first."""
    kept: list[Choice] = []
    for choice in sorted(choices):
        if not kept or choice[1] < kept[-1][1]:
            kept.append(choice)
    return kept
