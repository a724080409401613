"""The tree that refutes one target: mixtures of paths, and splits of the plans that each leaves."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS
from evenflow.solve.certificate.game import GameEnd, Shares, Sweeper, play
from evenflow.solve.certificate.path_book import Counts, PathBook
from evenflow.verify import Checker, ContentGraph, TreeOfCut

_ROOT_TURNS, _STATE_TURNS = 200, 40
_WORTH_LOOKING_AGAIN = 0.7
"""Share of the arcs left up to which states are looked at again."""
_WORTH_DROPPING = 0.97
"""Share of the arcs left up to which a mixture is worth naming at a node."""
_MOST_TRIED = 40
"""Mixtures that are tried at a node, of those that refuted others."""
_MOST_ARCS = 10_000_000
"""Arcs of graphs that are kept: about a gigabyte."""

Split = tuple[str, int, list[int]]
Node = tuple[list[int], Split | None]


class NotRefuted(Exception):
    """The time for a target is up, or it cannot be refuted."""


class Mixtures:
    """Mixtures of paths in whole shares, numbered."""

    def __init__(self, book: PathBook, denominator: int) -> None:
        self.book, self.denominator = book, denominator
        self.shares: list[list[tuple[int, int]]] = []
        self.rows: list[Counts] = []
        self.worth: list[float] = []

    def add(self, shares: Shares) -> int:
        """Return the number of a mixture, whose shares are rounded."""
        whole = {path: int(share * self.denominator) for path, share in shares.items()}
        largest = max(shares, key=lambda path: shares[path])
        whole[largest] += self.denominator - sum(whole.values())
        own = [(path, share) for path, share in whole.items() if share > 0]
        self.shares.append(own)
        parts = np.array([share for _path, share in own]) / self.denominator
        self.rows.append(parts @ self.book.counts([path for path, _share in own]))
        self.worth.append(1.0)
        return len(self.shares) - 1

    def exact(self, number: int) -> Shares:
        """Return the shares of a mixture as they are written."""
        return {path: share / self.denominator for path, share in self.shares[number]}


class KnownGraphs:
    """Graphs that were made: those of lower targets are parts of them."""

    def __init__(self, checker: Checker) -> None:
        """Begin with none."""
        self.checker = checker
        self._kept: dict[int, tuple[int, ContentGraph]] = {}
        self._num_arcs = 0

    def graph(self, middle: int, target_ns: int) -> ContentGraph:
        """Return a graph of all plans of at most `target_ns` with this cut between the chunks, and perhaps others."""
        made_for_ns, graph = self._kept.get(middle, (-1, None))
        if graph is not None and made_for_ns >= target_ns:
            return graph
        self.checker.graphs.aim(target_ns + 1)
        made = self.checker.graphs.graph(middle)
        self._num_arcs += len(made.sources) - (0 if graph is None else len(graph.sources))
        self._kept.pop(middle, None)
        if self._num_arcs <= _MOST_ARCS:
            self._kept[middle] = target_ns, made
        return made


class TreeSearch:
    """The search for trees for one target."""

    def __init__(
        self, graphs: KnownGraphs, mixtures: Mixtures, *, target_ns: int, keep_going: Callable[[], bool]
    ) -> None:
        """Prepare a search that ends when `keep_going` says no."""
        self._graphs, self._mixtures, self._keep_going = graphs, mixtures, keep_going
        self._book = mixtures.book
        self._target_ns = target_ns
        self._nodes: list[Node] = []

    def tree(self, middle: int, first: Shares) -> TreeOfCut | None:
        """Return the tree of a cut; None where it has no plans; raises NotRefuted."""
        if not self._keep_going():
            raise NotRefuted
        graph = self._graphs.graph(middle, self._target_ns)
        if not len(graph.sources):
            return None
        self._nodes = []
        self._refute(graph, first or self._longest(graph))
        return TreeOfCut(middle=middle, nodes=list(self._nodes))

    def _longest(self, graph: ContentGraph) -> Shares:
        """Return a mixture to begin with: longest paths of a mean plan."""
        steps = range(len(graph.starts) - 1)
        mean = np.array([graph.durations[graph.step(step)].mean(axis=0) for step in steps]).astype(np.int64)
        numbers = self._book.longest(mean, above_ns=-1)
        return {number: 1 / len(numbers) for number in numbers}

    def _narrow(self, graph: ContentGraph, drops: list[int]) -> ContentGraph:
        """Drop what known mixtures drop, and name those that do."""
        mixtures = self._mixtures
        order = sorted(range(len(mixtures.worth)), key=lambda number: -mixtures.worth[number])
        for number in order[:_MOST_TRIED]:
            graph, share = self._dropped(graph, number, drops)
            mixtures.worth[number] = 0.95 * mixtures.worth[number] + share
            if not len(graph.sources):
                break
        return graph

    def _dropped(self, graph: ContentGraph, number: int, drops: list[int]) -> tuple[ContentGraph, float]:
        alive = Sweeper(graph).alive(self._mixtures.rows[number], float(self._target_ns))
        left = np.count_nonzero(alive) / max(1, len(alive))
        if left > _WORTH_DROPPING:
            return graph, 0.0
        drops.append(number)
        return graph.keep(alive), 1 - left

    def _connected(self, graph: ContentGraph) -> ContentGraph:
        return graph.keep(Sweeper(graph).alive(np.zeros(self._book.num_slots + 1), 0.0))

    def _play(self, graph: ContentGraph, shares: Shares, turns: int, near: Sequence[int] = ()) -> GameEnd:
        if not self._keep_going():
            raise NotRefuted
        played = play(graph, self._book, shares, target_ns=self._target_ns, most_turns=turns, near=near)
        if played.within:
            raise NotRefuted
        return played

    def _refute(self, graph: ContentGraph, shares: Shares) -> None:
        """Append the nodes that refute all plans of a graph."""
        parts: list[tuple[ContentGraph, Shares, Sequence[int]]] = [(graph, shares, ())]
        while parts:
            graph, shares, near = parts.pop()
            drops: list[int] = []
            at = len(self._nodes)
            self._nodes.append((drops, None))
            graph = self._narrow(self._connected(graph), drops)
            if not len(graph.sources):
                continue
            played = self._play(graph, shares, _ROOT_TURNS, near)
            mixture = self._mixtures.add(played.shares)
            graph, _share = self._dropped(graph, mixture, drops)
            graph, at = self._probed(graph, played, at)
            if not len(graph.sources):
                continue
            split = self._split_of_game(graph, played, self._mixtures.rows[mixture]) or self._split(graph)
            if split is None:
                self._refute_equal(graph, self._nodes[at][0])
                continue
            self._nodes[at] = (self._nodes[at][0], split)
            parts += [(side, played.shares, played.near) for side in reversed(graph.split(*split))]

    def _refute_equal(self, graph: ContentGraph, drops: list[int]) -> None:
        """Name a longest path for plans that all have the same durations."""
        durations = graph.durations[graph.starts[:-1]]
        longest = self._book.longest(durations, above_ns=self._target_ns)
        if not longest:
            raise NotRefuted
        drops.append(self._mixtures.add({longest[0]: 1.0}))

    def _probed(self, graph: ContentGraph, game: GameEnd, at: int) -> tuple[ContentGraph, int]:
        """Refute the plans through single states; returns what is left, and the node that has it."""
        number = np.inf
        while 0 < len(graph.sources) < _WORTH_LOOKING_AGAIN * number:
            number = len(graph.sources)
            for step in _widest_first(graph):
                for state in np.unique(graph.targets[graph.step(step)]).tolist():
                    split: Split = ("state", step, graph.states[step + 1][state].tolist())
                    through, beside = map(self._connected, graph.split(*split))
                    if not len(through.sources):  # it went with another state
                        continue
                    played = self._play(through, game.shares, _STATE_TURNS, game.near)
                    if not played.refuted:
                        continue
                    refuter = self._mixtures.add(played.shares)
                    drops: list[int] = []
                    through, _share = self._dropped(through, refuter, drops)
                    if len(through.sources):  # by rounding
                        continue
                    further: list[int] = []
                    graph, _share = self._dropped(beside, refuter, further)
                    self._nodes[at] = (self._nodes[at][0], split)
                    at = len(self._nodes) + 1
                    self._nodes += [(drops, None), (further, None)]
        return graph, at

    @staticmethod
    def _split_of_game(graph: ContentGraph, game: GameEnd, mixture: Counts) -> Split | None:
        """Return the time of a rank in which the plans against a mixture differ most, as it weighs; None: in none."""
        shares, split, most = game.plan_shares / game.plan_shares.sum(), None, 0.0
        sums = _sums_of_times(graph.durations.shape[1])
        for step, weights in enumerate(mixture[:-1].reshape(len(graph.states) - 1, -1)):
            for summed in sums:
                against = game.plans[:, step] @ summed
                mean = float(shares @ against)
                spread = float(shares @ np.abs(against - mean) * (weights @ summed) / summed.sum())
                if spread <= most:
                    continue
                low = graph.durations[graph.step(step)] @ summed <= mean
                if low.any() and not low.all():
                    most, split = spread, ("time", step, [*summed.tolist(), int(mean)])
        return split

    def _split(self, graph: ContentGraph) -> Split | None:
        """Return where to split: at the cuts behind the widest step, else by a time; None where all plans are equal."""
        steps = _widest_first(graph)
        for step in steps:
            cuts = graph.states[step + 1][np.unique(graph.targets[graph.step(step)])]
            for chunk in (0, 1):
                own = np.unique(cuts[:, chunk])
                if len(own) > 1:
                    return ("cut", step, [chunk, int(own[(len(own) - 1) // 2])])
        num_slots = graph.durations.shape[1]
        for step in range(len(graph.starts) - 1):
            span = graph.step(step)
            for slot in range(num_slots):
                own = np.unique(graph.durations[span, slot])
                if len(own) > 1:
                    weights = [int(slot == other) for other in range(num_slots)]
                    return ("time", step, [*weights, int(own[(len(own) - 1) // 2])])
        return None


def _sums_of_times(num_times: int) -> list[NDArray[np.int64]]:
    """Return which times of a rank are added up to split by: F, B, or both, of one chunk or of all, [num_times]."""
    chunks = [range(0, num_times, NUM_OPS), *([first] for first in range(0, num_times, NUM_OPS))]
    sums = []
    for own, ops in product(chunks, ((0,), (1,), (0, 1))):
        summed = np.zeros(num_times, dtype=np.int64)
        summed[[first + op for first in own for op in ops]] = 1
        sums.append(summed)
    return sums


def _widest_first(graph: ContentGraph) -> list[int]:
    widths = [len(np.unique(graph.targets[graph.step(step)])) for step in range(len(graph.starts) - 2)]
    return [step for step in np.argsort(-np.array(widths), kind="stable").tolist() if widths[step] > 1]
