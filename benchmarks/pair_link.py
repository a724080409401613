"""Steps whose copies two neighbouring devices bring over one link, in turn: an event simulation of its own.

A device copies one activation at a time, in the order in which its actions ask for that, and of the two only one copies
in each direction: the other waits for its turn. A copy takes its time while a copy in the other direction runs, and
`ALONE` of it while none does. [PipeOffload, arXiv:2503.01328; `add_offload_passes` of its scheduler]
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Simulation

ALONE = 0.7
"""Time of a copy while nothing is copied in the other direction, as a share of that with a copy there."""


@dataclass(slots=True)
class _Direction:
    """One direction of a link: the copy that runs, what is left of it, and those that wait."""

    copy: int | None = None
    left: float = 0.0
    waiting: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Link:
    """The link of two devices, and when it was looked at last."""

    directions: tuple[_Direction, _Direction] = field(default_factory=lambda: (_Direction(), _Direction()))
    at: float = 0.0
    looks: int = 0
    """Number of changes: an end that was foreseen before the last one does not count."""

    @property
    def rate(self) -> float:
        return 1.0 if all(direction.copy is not None for direction in self.directions) else 1 / ALONE

    def move_to(self, time: float) -> None:
        for direction in self.directions:
            if direction.copy is not None:
                direction.left -= (time - self.at) * self.rate
        self.at = time


def pair_makespan_ns(simulation: Simulation, copy_ns: float) -> float:
    """Return the step of a plan whose every copy takes `copy_ns` beside one in the other direction, in ns.

    Raises ValueError for an odd number of ranks.
    """
    return _Run(simulation, copy_ns).makespan_ns()


class _Run:
    """The events of one step: ends of actions, of copies, and of waits for these."""

    def __init__(self, simulation: Simulation, copy_ns: float) -> None:
        graph, schedule = simulation.timeline.graph, simulation.timeline.schedule
        if schedule.num_ranks % 2:
            raise ValueError(f"ranks must be even to share links in pairs, got {schedule.num_ranks}")
        self._copy_ns = copy_ns
        self._ranks = graph.ranks.tolist()
        classes = graph.classes.tolist()
        self._times = simulation.costs.durations[graph.classes].tolist()
        first, stages = NUM_OPS * schedule.num_stages, schedule.num_stages
        num_copies = 0 if graph.copied is None else graph.copied.shape[1]
        inward = schedule.num_actions + num_copies
        self._directions = [
            (0 if node < inward else 1) if first <= kind < first + stages and time else None
            for node, kind, time in zip(graph.sequence.tolist(), classes, self._times, strict=True)
        ]
        """Of copies that take any time: 0 to the host, 1 back."""
        before = list(zip(graph.rank_predecessors.tolist(), graph.dependencies.tolist(), strict=True))
        self._missing = [sum(position > 0 for position in pair) for pair in before]
        self._after: list[list[int]] = [[] for _ in range(len(before) + 1)]
        for index, pair in enumerate(before):
            for position in pair:
                if position:
                    self._after[position].append(index)
        self._links = [_Link() for _ in range(schedule.num_ranks // 2)]
        self._events: list[tuple[float, int, int, int]] = []
        """When something ends, its position, and for a copy its link and the changes of that by then."""

    def makespan_ns(self) -> float:
        for index, missing in enumerate(self._missing):
            if not missing:
                self._begin(index, 0.0)
        time, done = 0.0, 0
        while self._events:
            at, index, link, looks = heapq.heappop(self._events)
            if link >= 0:
                if self._links[link].looks != looks:
                    continue
                self._end_copy(index, link, at)
            time, done = at, done + 1
            for later in self._after[index + 1]:
                self._missing[later] -= 1
                if not self._missing[later]:
                    self._begin(later, at)
        if done < len(self._missing):
            raise AssertionError("copies cannot wait for each other")
        return time

    def _begin(self, index: int, at: float) -> None:
        direction = self._directions[index]
        if direction is None:
            heapq.heappush(self._events, (at + self._times[index], index, -1, 0))
            return
        number = self._ranks[index] // 2
        self._links[number].directions[direction].waiting.append(index)
        self._change(number, at)

    def _end_copy(self, index: int, number: int, at: float) -> None:
        link, direction = self._links[number], self._directions[index]
        assert direction is not None
        link.move_to(at)
        link.directions[direction].copy = None
        self._change(number, at)

    def _change(self, number: int, at: float) -> None:
        """Let copies begin where their direction is free, and foresee their ends anew."""
        link = self._links[number]
        link.move_to(at)
        for own in link.directions:
            if own.copy is None and own.waiting:
                own.copy, own.left = own.waiting.popleft(), self._copy_ns
        link.looks += 1
        for own in link.directions:
            if own.copy is not None:
                end = at + max(0.0, own.left) / link.rate
                heapq.heappush(self._events, (end, own.copy, number, link.looks))
