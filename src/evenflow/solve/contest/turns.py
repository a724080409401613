"""A contest that runs in turns, for callers who have many of them and know the cutoff only from turn to turn."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from evenflow.interruption import on_interrupt
from evenflow.solve.clock import now_s
from evenflow.solve.contest.contest import Contest
from evenflow.solve.contest.entry import Entry
from evenflow.solve.problem import Problem
from evenflow.solve.recompute_ways import BoundPurpose

_LEAST_SECONDS = 0.3
"""Least seconds for one candidate: a shorter run does not pay for its start."""


class ContestInTurns(Contest):
    """A contest whose time and cutoff are given turn by turn; every turn goes on from the last one."""

    def __init__(self, entries: list[Entry], problem_of: Callable[[Entry], Problem]) -> None:
        super().__init__(entries, problem_of, began=now_s(), memory_limit_bytes=None, time_limit_s=0.0, progress=None)
        self._turns: Counter[int] = Counter()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has come in a turn."""
        return self._stopped.is_set()

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be found or proven for the cutoff of the last turn."""
        return all(entry.race is not None or entry.reason for entry in self.entries) and not self._open()

    @property
    def lower_bound_ns(self) -> float:
        """Lower bound on the plans of all candidates; infinite where there are none."""
        return min(entry.lower_bound_ns for entry in self.entries if entry.bounds is not BoundPurpose.COVER)

    def advance(self, *, seconds: float, cutoff_ns: float) -> None:
        """Let the candidates that can still win run on, some seconds in all: those with the fewest turns first."""
        self._cutoff_ns, self._deadline = cutoff_ns, now_s() + seconds
        with suppress(KeyboardInterrupt), on_interrupt(self._stopped.set):
            for entry in self.entries:
                if entry.race is None and not entry.reason and not self._stopped.is_set():
                    self._enter(entry)
            while not self._stopped.is_set() and self.left_s > 0:
                still = [entry for entry in self._open() if entry.race is not None and not entry.race.busy]
                if not still:
                    return
                first = min(still, key=lambda entry: (self._turns[id(entry)], not entry.known))
                self._turns[id(first)] += 1
                self._turn(first, min(self.left_s, max(_LEAST_SECONDS, self.left_s / len(still))))
