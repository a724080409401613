"""The time limit of a whole answer, shared by all of its phases."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from evenflow.errors import InputError
from evenflow.interruption import was_interrupted
from evenflow.language import _


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Deadline:
    """The moment at which the search must stop and give its best answer so far."""

    limit_s: float
    """Seconds that were allowed in all, for messages."""
    ends_s: float
    """The moment, by the clock `now`."""
    now: Callable[[], float] = monotonic
    """A clock in seconds."""

    @staticmethod
    def after(limit_s: float, *, now: Callable[[], float] | None = None) -> "Deadline":
        """Return the deadline that lies `seconds` ahead."""
        clock = now or monotonic
        return Deadline(limit_s=limit_s, ends_s=clock() + limit_s, now=clock)

    @property
    def left_s(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.ends_s - self.now())

    @property
    def is_over(self) -> bool:
        """Whether no time is left, or a signal has asked for the answer."""
        return self.left_s <= 0.0 or was_interrupted()

    def share(self, part: float) -> "Deadline":
        """Return the deadline by which a phase has used this share of the time left."""
        return Deadline(limit_s=self.limit_s, ends_s=self.now() + part * self.left_s, now=self.now)

    def too_short(self, rule: str = "") -> InputError:
        """Return the error for a time limit that was too short for any answer, or for what `rule` asks for."""
        return InputError(
            value=self.limit_s,
            rule=rule or _("must be enough seconds to trace the layers and to shard them on one mesh"),
            place=_("the time limit"),
            remedy=_("allow more seconds"),
        )
