"""The time that is left for an answer: all parts of it share one limit."""

from dataclasses import dataclass

from evenflow.interruption import command_began_s, was_interrupted
from evenflow.solve.clock import counts_work, now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """A deadline: some moment, or a signal to stop."""

    ends_s: float
    """The moment, by ``now_s()``."""

    @staticmethod
    def of(seconds: float) -> "TimeLeft":
        """Return a deadline some seconds from now."""
        return TimeLeft(ends_s=now_s() + seconds)

    @staticmethod
    def of_command(seconds: float) -> "TimeLeft":
        """Return a deadline some seconds after this process began; from now on where it is no command, or counts work.

        So starting, reading and compiling are in the limit that a user gives.
        """
        began_s = None if counts_work() else command_began_s()
        return TimeLeft.of(seconds) if began_s is None else TimeLeft(ends_s=began_s + seconds)

    @property
    def seconds(self) -> float:
        """Seconds until the deadline, at least 0."""
        return 0.0 if was_interrupted() else max(0.0, self.ends_s - now_s())

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed or a signal has come."""
        return self.seconds <= 0.0

    def share(self, part: float) -> "TimeLeft":
        """Return an earlier deadline, after this share of the time that is left."""
        return TimeLeft.of(part * self.seconds)

    def at_most(self, seconds: float) -> "TimeLeft":
        """Return this deadline, or an earlier one after at most so many seconds."""
        return TimeLeft.of(min(seconds, self.seconds))
