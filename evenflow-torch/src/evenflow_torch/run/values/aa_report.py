"""What the A/A check is asked for and what it finds."""

from dataclasses import dataclass, field
from enum import StrEnum

from evenflow.aa import Direction, StageWork


class FaultKind(StrEnum):
    """What a fault spoils."""

    PRODUCT = "product"
    """The result of a forward or backward, once."""
    MESSAGE = "message"
    """A message on its way to the rank."""
    UPDATE = "update"
    """A parameter, while the optimizer updates it."""
    STUCK = "stuck"
    """Every forward of the rank from its step on, also those that are done again."""


class Evidence(StrEnum):
    """What was compared when a fault was seen."""

    REPEAT = "repeat"
    """Work and the same work done again on the rank."""
    MESSAGE = "message"
    """A message as it was sent and as it arrived."""
    UPDATE = "update"
    """The update of a parameter and the same update done again."""
    NEIGHBOUR = "neighbour"
    """Work of the rank and the same work done by the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A bit to flip, to see that the A/A check finds it."""

    rank: int
    step: int
    """Step of the training, from 0."""
    kind: FaultKind = FaultKind.PRODUCT
    microbatch: int | None = None
    """Microbatch of the work or message that is spoiled; None for one that is checked in that step."""
    direction: Direction | None = None
    """Half of the work, or gradients (backward) or activations; None for one that is checked in that step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A tensor that came out differently the second time, on the way or on another rank."""

    rank: int
    step: int
    """Step of the training, from 0."""
    tensor: str
    """Name of the tensor: of a parameter for its gradient or update, of a layer, else what it is."""
    evidence: Evidence = Evidence.REPEAT
    stage: int | None = None
    microbatch: int | None = None
    direction: Direction | None = None
    num_different: int | None = None
    """Numbers that differ in some bit; None where only checksums were compared."""
    other_rank: int | None = None
    """Rank that has sent the message, or done the work too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAudit:
    """What the A/A check did on one rank."""

    num_checks: int
    share_per_step: float
    """Checked share of the rank's actions in a step with checks."""
    share_of_run: float
    """Share of the rank's actions that were checked in some step."""
    check_ns: int
    """Time of re-executing and comparing in a step with checks, mean."""
    never_checked: list[StageWork]
    fits_no_bubble: list[StageWork]
    mismatches: list[Mismatch]
    injected: list[str]
    """Places of the flipped bits, in words."""
    rotation_steps: int = 0
    """Steps with checks in which all work that bubbles and memory hold is done again."""
    num_messages: int = 0
    """Messages to this rank whose checksums were compared."""
    num_updates: int = 0
    """Parameters whose update was done again, in all steps."""
    update_steps: int = 0
    """Steps with checks in which every parameter's update is done again."""
    update_ns: int = 0
    """Time of doing updates again and comparing in a step with checks, mean."""
    num_neighbour_checks: int = 0
    """Layers of the rank before that this rank has done again."""
    neighbour_steps: int = 0
    """Steps with checks in which every layer of the rank is done again by the next one; 0 where none can do it."""
    neighbour_ns: int = 0
    """Time of one exchange with the neighbours, mean; it is no part of the step's."""
    without_neighbour: list[str] = field(default_factory=list)
    """Layers of the rank before that this rank has nothing like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AAReport:
    """What the A/A check found on all ranks, and what it cost."""

    ranks: list[RankAudit]
    num_checked_steps: int
    checked_step_ns: int
    """Median time of the measured steps with checks."""
    plain_step_ns: int
    """Median time of the measured steps without checks."""

    @property
    def cost(self) -> float:
        """Share by which checks make a step longer: 0.01 means one per cent."""
        return self.checked_step_ns / self.plain_step_ns - 1

    @property
    def mismatches(self) -> list[Mismatch]:
        """Mismatches of all ranks in the order of steps."""
        return sorted(
            (mismatch for rank in self.ranks for mismatch in rank.mismatches), key=lambda mismatch: mismatch.step
        )
