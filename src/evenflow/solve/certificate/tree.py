"""The tree that refutes one target: mixtures of paths, and splits of the plans that each leaves."""

from collections.abc import Callable

import numpy as np

from evenflow.solve.certificate.game import GameEnd, Shares, Sweeper, play
from evenflow.solve.certificate.path_book import Counts, PathBook
from evenflow.verify import Checker, ContentGraph, TreeOfCut

_MARGIN = 1e-6
"""Fraction by which plans must exceed a target in a game, so that they still do when shares are rounded."""
_ROOT_TURNS, _STATE_TURNS = 200, 40
_WORTH_LOOKING_AGAIN = 0.7
"""Share of the arcs left up to which states are looked at again."""
_WORTH_DROPPING = 0.97
"""Share of the arcs left up to which a mixture is worth naming at a node."""
_MOST_TRIED = 40
"""Mixtures that are tried at a node, of those that refuted others."""

Split = tuple[str, int, list[int]]
Node = tuple[list[int], Split | None]


class OutOfTime(Exception):
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


class TreeSearch:
    """The search for a tree for one target and one cut between the chunks."""

    def __init__(self, checker: Checker, mixtures: Mixtures, *, target_ns: int, keep_going: Callable[[], bool]) -> None:
        self._checker, self._mixtures, self._keep_going = checker, mixtures, keep_going
        self._book = mixtures.book
        self._target_ns = target_ns
        self._nodes: list[Node] = []

    def tree(self, middle: int, first: Shares) -> TreeOfCut | None:
        """Return the tree of a cut; None where it has no plans; raises OutOfTime."""
        if not self._keep_going():
            raise OutOfTime
        graph = self._checker.graphs.graph(middle)
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

    def _play(self, graph: ContentGraph, shares: Shares, turns: int) -> GameEnd:
        if not self._keep_going():
            raise OutOfTime
        played = play(graph, self._book, shares, target_ns=self._target_ns * (1 + _MARGIN), most_turns=turns, known=[])
        if played.within:
            raise OutOfTime
        return played

    def _refute(self, graph: ContentGraph, shares: Shares) -> None:
        """Append the nodes that refute all plans of a graph."""
        drops: list[int] = []
        at = len(self._nodes)
        self._nodes.append((drops, None))
        graph = self._narrow(graph, drops)
        if not len(graph.sources):
            return
        played = self._play(graph, shares, _ROOT_TURNS)
        number = self._mixtures.add(played.shares)
        graph, _share = self._dropped(graph, number, drops)
        if not len(graph.sources):
            return
        graph, at = self._probed(graph, played.shares, at)
        if not len(graph.sources):
            return
        split = self._split(graph, played)
        self._nodes[at] = (self._nodes[at][0], split)
        for side in map(self._connected, graph.split(*split)):
            if len(side.sources):
                self._refute(side, played.shares)
            else:
                self._nodes.append(([], None))

    def _probed(self, graph: ContentGraph, shares: Shares, at: int) -> tuple[ContentGraph, int]:
        """Refute the plans through single states; returns what is left, and the node that has it."""
        number = np.inf
        while len(graph.sources) < _WORTH_LOOKING_AGAIN * number:
            number = len(graph.sources)
            for step in _widest_first(graph):
                for state in np.unique(graph.targets[graph.step(step)]).tolist():
                    split: Split = ("state", step, graph.states[step + 1][state].tolist())
                    through, beside = graph.split(*split)
                    through = self._connected(through)
                    drops: list[int] = []
                    if len(through.sources):
                        played = self._play(through, shares, _STATE_TURNS)
                        if not played.refuted:
                            continue
                        refuter = self._mixtures.add(played.shares)
                        through, _share = self._dropped(through, refuter, drops)
                        if len(through.sources):
                            continue
                        further: list[int] = []
                        beside, _share = self._dropped(beside, refuter, further)
                    else:
                        continue
                    self._nodes[at] = (self._nodes[at][0], split)
                    self._nodes.append((drops, None))
                    beside = self._connected(beside)
                    at = len(self._nodes)
                    self._nodes.append((further, None))
                    graph = beside
                    if not len(graph.sources):
                        return graph, at
        return graph, at

    def _split(self, graph: ContentGraph, played: GameEnd) -> Split:
        """Return where to split: at a state of the widest step, in the middle of its cuts by first chunk."""
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
        raise OutOfTime


def _widest_first(graph: ContentGraph) -> list[int]:
    widths = [len(np.unique(graph.targets[graph.step(step)])) for step in range(len(graph.starts) - 2)]
    return [step for step in np.argsort(-np.array(widths), kind="stable").tolist() if widths[step] > 1]
