"""The options of a single cell: a run of layers with its best recompute choices.

Besides its layers, only the backward time, the activation, the working memory and what it moves to the host matter
(weight gradients depend on the layers alone, so input gradients grow as backwards do). So only the Pareto-minimal
recompute counts are kept: no other choice is faster, smaller and moves less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from evenflow.model import FULL, NONE, LayerRun
from evenflow.simulate import Integers, LayerSums
from evenflow.solve.problem import Problem

Choice = tuple[int, int, int, int, tuple[int, ...]]
"""Backward time in ns, activation bytes, working bytes, bytes that the host keeps, and layers by kind."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellOptions:
    """All sensible contents of one cell, head or tail included; arrays share their first axis.

    Contents are given by the runs of equal layers that the cell touches, not by positions: within a run it does not
    matter which layers they are. A cell may touch the end of its first run, whole runs, and the beginning of its last.
    """

    starts: Integers
    """A first layer of it: where it begins, or where its run does if it has none of another."""
    first_run: Integers
    last_run: Integers
    in_first: Integers
    """Number of layers in the first run."""
    in_last: Integers
    """Number of layers in the last run if that is another one, else 0."""
    layers: Integers
    forward_ns: Integers
    backward_ns: Integers
    weight_ns: Integers
    saved_ns: Integers
    """The most that a forward saves beside its backward; 0 where none runs beside a backward."""
    activation_bytes: Integers
    until_weight_bytes: Integers
    working_bytes: Integers
    offloaded_bytes: Integers
    copy_ns: Integers
    """Time of a copy of what the host keeps."""
    parameter_bytes: Integers
    faster: Integers
    """Index of the option with the same layers and the next shorter backward (and more memory), or -1.

    Where working memory counts, the backward may be as long, with less of one kind of memory and more of the other. It
    moves no more to the host.
    """
    counts: NDArray[np.int32]
    """Layers by kind, shape [num_options, num_kinds]."""

    def __len__(self) -> int:
        return len(self.layers)

    def select(self, keep: NDArray[np.bool_]) -> "CellOptions":
        """Return the options where `keep` holds; a dropped `faster` option is replaced by the next one left."""
        new_index = np.cumsum(keep) - 1
        faster = self.faster.copy()
        while True:
            lost = (faster >= 0) & ~keep[faster]
            if not lost.any():
                break
            faster[lost] = self.faster[faster[lost]]
        kept = {name: getattr(self, name)[keep] for name in self.__dataclass_fields__}
        kept["faster"] = np.where(faster >= 0, new_index[faster], -1)[keep]
        return CellOptions(**kept)


class Segments:
    """The recompute choices of each run of layers that a cell may hold, computed once for all cells."""

    def __init__(self, problem: Problem, max_load_ns: int) -> None:
        self._problem = problem
        sizes = [run.count for run in merged_runs(problem)]
        self.run_ends = np.cumsum(sizes)
        self.run_starts = self.run_ends - sizes
        self._choices = {
            speed: {start: _choices(problem, speed, start, max_load_ns) for start in self._starts()}
            for speed in problem.network.speeds
        }

    def _starts(self) -> list[int]:
        """Return representative first layers: where runs begin, and where a cell may begin that spans several runs."""
        last = len(self.run_ends) - 1
        inside = set() if last == 0 else set(range(int(self.run_ends[last - 1])))
        if self._problem.fixed_bounds is not None:
            inside &= set(self._problem.fixed_bounds.tolist())
        return sorted({*self.run_starts.tolist(), *inside})

    def options(self, cell: int, *, first_runs: range, last_run_from: int, max_load_ns: int) -> CellOptions:
        """Return the options of `cell` that begin in one of `first_runs` and end in `last_run_from` or later.

        Their forward and backward together take at most `max_load_ns`.
        """
        problem = self._problem
        speed = problem.cell_speeds[cell]
        sums, network = problem.sums_at(speed), problem.network_at(speed)
        choices = self._choices[speed]
        blocks = [block for block, at in ((network.head, 0), (network.tail, problem.num_cells - 1)) if at == cell]
        costs = ("forward_ns", "backward_ns", "weight_ns", "activation_bytes", "until_weight_bytes", "parameter_bytes")
        fixed = [sum(getattr(block, name) for block in blocks) for name in costs]
        least_working = max((block.working_bytes for block in blocks), default=0)
        rows: list[tuple[int, ...]] = []
        counts: list[tuple[int, ...]] = []
        placement = problem.placement
        saved_until = problem.most_saved_ns(speed)
        ns_per_byte, free = float(problem.copy_ns_per_byte[cell]), problem.copies_take_no_time
        for first, last, start, layers in self._spans(cell, choices, first_runs, last_run_from):
            end = start + layers
            if placement is not None and not placement.allows(cell, np.array(start), np.array(end)):
                continue
            forward = int(sums.forward_ns[end] - sums.forward_ns[start]) + fixed[0]
            saved = int(saved_until[end] - saved_until[start])
            weight = int(sums.weight_ns[end] - sums.weight_ns[start]) + fixed[2]
            waiting = int(sums.until_weight_bytes[end] - sums.until_weight_bytes[start]) + fixed[4]
            parameters = int(sums.parameter_bytes[end] - sums.parameter_bytes[start]) + fixed[5]
            in_last = end - int(self.run_starts[last]) if last > first else 0
            in_first = min(end, int(self.run_ends[first])) - start
            behind: list[tuple[int, int]] = []  # bytes that the host keeps, and index
            for backward, activation, working, offloaded, by_kind in choices[start][layers]:
                if forward + backward + fixed[1] - saved > max_load_ns:
                    break
                rows.append(
                    (
                        start,
                        first,
                        last,
                        in_first,
                        in_last,
                        layers,
                        forward,
                        backward + fixed[1],
                        weight,
                        activation + fixed[3],
                        waiting,
                        parameters,
                        max(working, least_working),
                        offloaded,
                        ceil(offloaded * ns_per_byte),
                        saved,
                        next((index for moved, index in reversed(behind) if free or moved <= offloaded), -1),
                    )
                )
                behind.append((offloaded, len(rows) - 1))
                counts.append(by_kind)
        names: tuple[str, ...] = ("starts", "first_run", "last_run", "in_first", "in_last", "layers", *costs)
        names = (*names, "working_bytes", "offloaded_bytes", "copy_ns", "saved_ns", "faster")
        table = np.array(rows, dtype=np.int64).reshape(-1, len(names))
        return CellOptions(
            **{name: np.ascontiguousarray(table[:, at]) for at, name in enumerate(names)},
            counts=np.array(counts, dtype=np.int32).reshape(-1, len(problem.kinds)),
        )

    def _spans(
        self, cell: int, choices: Mapping[int, list[list[Choice]]], first_runs: range, last_run_from: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield ``(first run, last run, representative first layer, layers)`` for all contents of a cell."""
        if self._problem.fixed_bounds is not None:
            yield from self._fixed_span(choices, *self._problem.fixed_bounds[cell : cell + 2].tolist())
            return
        least = self._problem.min_layers
        for first in first_runs:
            begin, end = int(self.run_starts[first]), int(self.run_ends[first])
            if first >= last_run_from:
                for layers in range(least, min(end - begin, len(choices[begin]) - 1) + 1):
                    yield first, first, begin, layers
            if first == len(self.run_ends) - 1:
                continue
            for start in range(begin, end):
                for layers in range(max(least, end - start + 1), len(choices[start])):
                    last = int(np.searchsorted(self.run_ends, start + layers))
                    if last >= last_run_from:
                        yield first, last, start, layers

    def _fixed_span(
        self, choices: Mapping[int, list[list[Choice]]], start: int, end: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield the same as `_spans` for a cell that must hold the layers [start, end)."""
        first = min(int(np.searchsorted(self.run_ends, start, side="right")), len(self.run_ends) - 1)
        last = max(first, int(np.searchsorted(self.run_ends, end)))
        representative = start if last > first else int(self.run_starts[first])
        if end - start < len(choices[representative]):
            yield first, last, representative, end - start


def merged_runs(problem: Problem) -> list[LayerRun]:
    """Return the runs of the network with neighbours of equal cost joined."""
    runs: list[LayerRun] = []
    for run in problem.network.runs:
        if runs and replace(run.layer, name=runs[-1].layer.name) == runs[-1].layer:
            runs[-1] = replace(runs[-1], count=runs[-1].count + run.count)
        else:
            runs.append(run)
    return runs


def _choices(problem: Problem, speed: float, start: int, max_load_ns: int) -> list[list[Choice]]:
    """Return the Pareto-minimal recompute choices by number of layers from `start` on, shortest backward first."""
    sums = problem.sums_at(speed)
    # The least that layers up to a border take, forward and backward.
    least_ns = sums.forward_ns + sums.backward_ns[-1] - problem.most_saved_ns(speed)
    most = int(np.searchsorted(least_ns, least_ns[start] + max_load_ns, side="right")) - 1 - start
    if problem.counts_full:
        return _counted_choices(problem, sums, start, most)
    by_family = [_family_choices(problem, sums, start, kinds, most) for kinds in problem.families]
    free = problem.copies_take_no_time
    return [
        _pareto([choice for rows in by_family for choice in rows[layers]], free=free)
        for layers in range(len(by_family[0]))
    ]


def _family_choices(
    problem: Problem, sums: LayerSums, start: int, kinds: tuple[int, ...], longest: int
) -> list[list[Choice]]:
    """Return the choices by number of layers, at most `longest`, when a cell may mix all of `kinds`.

    The layers of a cell stand in the order of the kinds, so the choices of [start, end) that use the kinds up to k
    extend those of a shorter run that use the kinds before k.
    """
    backward, activation, working, offloaded = (
        sums.backward_ns, sums.activation_bytes, sums.working_bytes, sums.offloaded_bytes
    )  # fmt: skip
    nothing, free = (0,) * len(problem.kinds), problem.copies_take_no_time
    table: list[list[list[Choice]]] = []  # [layers][position in kinds]: last layer's kind is at most that
    for layers in range(longest + 1):
        end = start + layers
        row: list[list[Choice]] = []
        for position, kind in enumerate(kinds):
            choices = list(row[position - 1]) if position else ([] if layers else [(0, 0, 0, 0, nothing)])
            if layers:
                more_time = int(backward[kind, end] - backward[kind, end - 1])
                more_memory = int(activation[kind, end] - activation[kind, end - 1])
                needed = int(working[kind, end - 1])
                runs = sums.segments.get(kind)
                more_moved = 0 if offloaded is None else int(offloaded[kind, end] - offloaded[kind, end - 1])
                if runs is not None:
                    for time, memory, highest, moved, counts in table[layers - 1][position]:
                        first = end - 1 - counts[kind]
                        more = int(runs.activation_bytes[first, end] - runs.activation_bytes[first, end - 1])
                        choices.append(
                            (
                                time + more_time,
                                memory + more,
                                max(highest, int(runs.working_bytes[first, end])),
                                moved,
                                (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]),
                            )
                        )
                    row.append(_pareto_by_count(choices, kind, free=free))
                    continue
                choices += [
                    (
                        time + more_time,
                        memory + more_memory,
                        max(highest, needed),
                        moved + more_moved,
                        (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]),
                    )
                    for time, memory, highest, moved, counts in table[layers - 1][position]
                ]
            elif position:
                choices = [(0, 0, 0, 0, nothing)]
            row.append(_pareto(choices, free=free))
        table.append(row)
    return [_pareto(row[-1], free=free) if sums.segments else row[-1] for row in table]


def _counted_choices(problem: Problem, sums: LayerSums, start: int, longest: int) -> list[list[Choice]]:
    """Return the same where the number of layers bounds those under `full`, which come first."""
    full, none = problem.kinds.index(FULL), problem.kinds.index(NONE)
    table: list[list[Choice]] = []
    for layers in range(longest + 1):
        end = start + layers
        choices = []
        least, most = problem.full_range(layers)
        for count in range(least, most + 1):
            middle = start + count
            time, memory = (
                int(
                    sums_of_kinds[full, middle]
                    - sums_of_kinds[full, start]
                    + sums_of_kinds[none, end]
                    - sums_of_kinds[none, middle]
                )
                for sums_of_kinds in (sums.backward_ns, sums.activation_bytes)
            )
            working = max(
                int(sums.working_bytes[full, start:middle].max(initial=0)),
                int(sums.working_bytes[none, middle:end].max(initial=0)),
            )
            by_kind = [0] * len(problem.kinds)
            by_kind[full], by_kind[none] = count, layers - count
            choices.append((time, memory, working, 0, tuple(by_kind)))
        table.append(_pareto(choices))
    return table


def _pareto_by_count(choices: list[Choice], kind: int, *, free: bool) -> list[Choice]:
    """Return the same as `_pareto`, among choices with as many layers under `kind`, after which segments begin anew."""
    by_count: dict[int, list[Choice]] = {}
    for choice in choices:
        by_count.setdefault(choice[-1][kind], []).append(choice)
    return [choice for same in by_count.values() for choice in _pareto(same, free=free)]


def _pareto(choices: list[Choice], *, free: bool = False) -> list[Choice]:
    """Return the choices that no other beats in time, all kinds of memory and copies, shortest backward first.

    Where copies are `free`, what moves counts as memory alone: of that a rank never holds more at a time than of what
    stays, so one beats another if it keeps no more there, and no more altogether.
    """
    kept: list[Choice] = []
    least: dict[tuple[int, int], int] = {}  # activation by working bytes and those of the host, of those kept
    for choice in sorted(choices):
        _, activation, working, offloaded, _ = choice
        apart = offloaded + activation if free else offloaded
        if all(activation < other for (needed, moved), other in least.items() if needed <= working and moved <= apart):
            kept.append(choice)
            least[working, apart] = activation
    return kept
