"""What the A/A check is asked for and what it finds."""

from dataclasses import dataclass

from evenflow.aa import Direction, StageWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A bit to flip, to see that the A/A check finds it."""

    rank: int
    step: int
    """Step of the training, from 0."""
    microbatch: int | None = None
    """Microbatch of the work whose result is flipped; None for one that is checked in that step."""
    direction: Direction | None = None
    """Half of the work whose result is flipped; None for one that is checked in that step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A tensor that came out differently the second time."""

    rank: int
    stage: int
    microbatch: int
    step: int
    """Step of the training, from 0."""
    direction: Direction
    tensor: str
    """Name of the tensor: of a parameter for its gradient, else what it is."""
    num_different: int
    """Numbers that differ in some bit."""


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
