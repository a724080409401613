"""The options of a single cell: a run of layers with its best recompute choices.

Besides its layers, only the backward time, the activation, the working memory and what it moves to the host matter
(weight gradients depend on the layers alone, so input gradients grow as backwards do). So only the Pareto-minimal
recompute counts are kept: no other choice is faster, smaller and moves less.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from evenflow.model import FULL, NONE, CellRule, LayerRun
from evenflow.simulate import Integers, LayerSums
from evenflow.solve.problem import Problem

Choice = tuple[int, int, int, int, tuple[int, ...]]
"""Backward time in ns, activation bytes, working bytes, bytes that the host keeps, and layers by kind."""
Span = tuple[int, int, int, int]
"""First run, last run, representative first layer, and number of layers."""
_OF_ENDS = ("forward_ns", "backward_ns", "weight_ns", "activation_bytes", "until_weight_bytes", "parameter_bytes")
"""What head and tail add to their cells."""


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
        self._all_contents: dict[float, CellOptions] = {}

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
        network = problem.network_at(speed)
        blocks = [block for block, at in ((network.head, 0), (network.tail, problem.num_cells - 1)) if at == cell]
        working = max((block.working_bytes for block in blocks), default=0)
        if problem.fixed_bounds is None:
            all_contents = self._contents_at(speed)
            keep = (all_contents.first_run >= first_runs.start) & (all_contents.first_run < first_runs.stop)
            keep &= all_contents.last_run >= last_run_from
        else:
            span = self._fixed_span(self._choices[speed], *problem.fixed_bounds[cell : cell + 2].tolist())
            all_contents = self._contents(span, speed)
            keep = np.ones(len(all_contents), dtype=np.bool_)
        if problem.placement is not None:
            keep &= problem.placement.allows(cell, all_contents.starts, all_contents.starts + all_contents.layers)
        ends_ns = sum(block.forward_ns + block.backward_ns for block in blocks)
        load_ns = all_contents.forward_ns + all_contents.backward_ns - all_contents.saved_ns
        own = all_contents.select(keep & (load_ns + ends_ns <= max_load_ns))
        with_ends = {name: getattr(own, name) + sum(getattr(block, name) for block in blocks) for name in _OF_ENDS}
        return replace(
            own,
            **with_ends,
            working_bytes=np.maximum(own.working_bytes, working),
            copy_ns=np.ceil(own.offloaded_bytes * float(problem.copy_ns_per_byte[cell])).astype(np.int64),
        )

    def _contents_at(self, speed: float) -> CellOptions:
        """Return the options of a cell without head and tail, anywhere in the network; copies take no time in them."""
        if speed not in self._all_contents:
            self._all_contents[speed] = self._contents(self._spans(self._choices[speed]), speed)
        return self._all_contents[speed]

    def _contents(self, spans: Iterable[Span], speed: float) -> CellOptions:
        """Return the options that hold these spans of layers."""
        problem, choices = self._problem, self._choices[speed]
        sums, free = problem.sums_at(speed), problem.copies_take_no_time
        of_spans: list[Span] = []
        numbers: list[int] = []
        rows: list[tuple[int, int, int, int, int]] = []
        counts: list[tuple[int, ...]] = []
        for span in spans:
            behind: list[tuple[int, int]] = []  # bytes that the host keeps, and index
            own = choices[span[2]][span[3]]
            for backward, activation, working, offloaded, by_kind in own:
                faster = next((index for moved, index in reversed(behind) if free or moved <= offloaded), -1)
                behind.append((offloaded, len(rows)))
                rows.append((backward, activation, working, offloaded, faster))
                counts.append(by_kind)
            of_spans.append(span)
            numbers.append(len(own))
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        first, last, start, layers = np.repeat(np.array(of_spans, dtype=np.int64).reshape(-1, 4), numbers, axis=0).T
        end = start + layers
        saved = problem.most_saved_ns(speed)
        return CellOptions(
            starts=start,
            first_run=first,
            last_run=last,
            in_first=np.minimum(end, self.run_ends[first]) - start,
            in_last=np.where(last > first, end - self.run_starts[last], 0),
            layers=layers,
            forward_ns=sums.forward_ns[end] - sums.forward_ns[start],
            backward_ns=table[:, 0],
            weight_ns=sums.weight_ns[end] - sums.weight_ns[start],
            saved_ns=saved[end] - saved[start],
            activation_bytes=table[:, 1],
            until_weight_bytes=sums.until_weight_bytes[end] - sums.until_weight_bytes[start],
            working_bytes=table[:, 2],
            offloaded_bytes=table[:, 3],
            copy_ns=np.zeros_like(start),
            parameter_bytes=sums.parameter_bytes[end] - sums.parameter_bytes[start],
            faster=table[:, 4],
            counts=np.array(counts, dtype=np.int32).reshape(-1, len(problem.kinds)),
        )

    def _spans(self, choices: Mapping[int, list[list[Choice]]]) -> Iterator[Span]:
        """Yield all that a cell may hold."""
        least = self._problem.min_layers
        for first in range(len(self.run_ends)):
            begin, end = int(self.run_starts[first]), int(self.run_ends[first])
            for layers in range(least, min(end - begin, len(choices[begin]) - 1) + 1):
                yield first, first, begin, layers
            if first == len(self.run_ends) - 1:
                continue
            for start in range(begin, end):
                for layers in range(max(least, end - start + 1), len(choices[start])):
                    yield first, int(np.searchsorted(self.run_ends, start + layers)), start, layers

    def _fixed_span(self, choices: Mapping[int, list[list[Choice]]], start: int, end: int) -> Iterator[Span]:
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


class _Choices:
    """The Pareto-minimal recompute choices of cells that begin with one layer, shortest backward first.

    They are found once for a problem, by number of layers, as far as they are needed. Nothing in here refers to the
    problem, with which it goes.
    """

    def __init__(self, problem: Problem, speed: float, start: int) -> None:
        sums, free = problem.sums_at(speed), problem.copies_take_no_time
        # The least that layers up to a border take, forward and backward.
        self._least_ns = sums.forward_ns + sums.backward_ns[-1] - problem.most_saved_ns(speed)
        self._start = start
        self._known: list[list[Choice]] = []
        self._lock = Lock()
        self._others: Iterator[list[Choice]]
        """Those of one layer more each."""
        if problem.counts_full:
            self._others = _counted_choices(problem.kinds, sums, start, problem.request.cell_rule)
        else:
            families = [_family_choices(problem.kinds, sums, start, own, free=free) for own in problem.families]
            self._others = (
                _pareto([choice for row in rows for choice in row], free=free) for rows in zip(*families, strict=True)
            )

    def within(self, max_load_ns: int) -> list[list[Choice]]:
        """Return the choices by number of layers, up to as many as may take at most `max_load_ns`."""
        start = self._start
        end = int(np.searchsorted(self._least_ns, self._least_ns[start] + max_load_ns, side="right")) - 1
        with self._lock:
            self._known += islice(self._others, max(0, end - start + 1 - len(self._known)))
        return self._known[: end - start + 1]


_CHOICES: WeakKeyDictionary[Problem, dict[tuple[float, int], _Choices]] = WeakKeyDictionary()
"""Choices by speed and first layer."""


def _choices(problem: Problem, speed: float, start: int, max_load_ns: int) -> list[list[Choice]]:
    """Return the Pareto-minimal recompute choices by number of layers from `start` on, shortest backward first."""
    known = _CHOICES.setdefault(problem, {})
    if (speed, start) not in known:
        known[speed, start] = _Choices(problem, speed, start)
    return known[speed, start].within(max_load_ns)


def _family_choices(
    all_kinds: Sequence[str], sums: LayerSums, start: int, kinds: tuple[int, ...], *, free: bool
) -> Iterator[list[Choice]]:
    """Yield the choices by number of layers when a cell may mix all of `kinds`.

    The layers of a cell stand in the order of the kinds, so the choices of [start, end) that use the kinds up to k
    extend those of a shorter run that use the kinds before k.
    """
    backward, activation, working, offloaded = (
        sums.backward_ns, sums.activation_bytes, sums.working_bytes, sums.offloaded_bytes
    )  # fmt: skip
    nothing = (0,) * len(all_kinds)
    last_row: list[list[Choice]] = []
    for end in range(start, len(sums.forward_ns)):
        row: list[list[Choice]] = []  # by position in kinds: last layer's kind is at most that
        for position, kind in enumerate(kinds):
            choices = list(row[position - 1]) if position else ([] if end > start else [(0, 0, 0, 0, nothing)])
            if end > start:
                more_time = int(backward[kind, end] - backward[kind, end - 1])
                more_memory = int(activation[kind, end] - activation[kind, end - 1])
                needed = int(working[kind, end - 1])
                runs = sums.segments.get(kind)
                more_moved = 0 if offloaded is None else int(offloaded[kind, end] - offloaded[kind, end - 1])
                if runs is not None:
                    for time, memory, highest, moved, counts in last_row[position]:
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
                    for time, memory, highest, moved, counts in last_row[position]
                ]
            elif position:
                choices = [(0, 0, 0, 0, nothing)]
            row.append(_pareto(choices, free=free))
        last_row = row
        yield _pareto(row[-1], free=free) if sums.segments else row[-1]


def _counted_choices(kinds: Sequence[str], sums: LayerSums, start: int, rule: CellRule) -> Iterator[list[Choice]]:
    """Yield the same where the number of layers bounds those under `full`, which come first."""
    full, none = kinds.index(FULL), kinds.index(NONE)
    for end in range(start, len(sums.forward_ns)):
        choices = []
        least, most = rule.full_range(end - start)
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
            by_kind = [0] * len(kinds)
            by_kind[full], by_kind[none] = count, end - start - count
            choices.append((time, memory, working, 0, tuple(by_kind)))
        yield _pareto(choices)


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
