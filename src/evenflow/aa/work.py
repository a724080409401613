"""The work of a rank as the A/A check counts it."""

from dataclasses import dataclass
from enum import StrEnum

from evenflow.schedule import Action


class Direction(StrEnum):
    """Half of the work on a microbatch."""

    FORWARD = "forward"
    BACKWARD = "backward"
    """Input and weight gradients, also where a schedule splits them."""


StageWork = tuple[int, Direction]
"""A stage and the half of its work that is checked: a kind of work of its rank."""

Cell = tuple[int, Direction, int]
"""A stage, the half of its work, and the microbatch that it is done on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One re-execution of work on a microbatch."""

    after: Action
    """Action of the rank behind which the check runs."""
    stage: int
    microbatch: int
    direction: Direction

    @property
    def cell(self) -> Cell:
        """The work that is done again."""
        return self.stage, self.direction, self.microbatch
