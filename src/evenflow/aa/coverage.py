"""What the A/A check of a plan covers: in how many steps, of which work, and how long faults stay unseen."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.aa.fewest_turns import fewest_turns
from evenflow.aa.rank_checks import RankChecks
from evenflow.aa.work import StageWork

_HOUR_NS = 3_600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCoverage:
    """What the checks of one rank cover."""

    num_checks: int
    """Checks of a rotation."""
    num_turns: int
    """Steps within which all work of the rank that can be checked is checked: its rotation; 0 where none can."""
    at_least_turns: int
    """Steps that every choice of checks needs; equal to `num_turns` where the rotation is proven the shortest."""
    kind_turns: int
    """Steps within which every kind of work that can be checked is checked on some microbatch."""
    share: float
    """Share of the rank's work time that is checked in a step, mean over the rotation."""
    never_share: float
    """Share of the rank's work time that no step checks."""
    never: tuple[tuple[StageWork, int], ...]
    """Kinds of work with microbatches that are never checked, and how many these are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What the checks of a plan cover."""

    ranks: tuple[RankCoverage, ...]
    step_ns: int

    @property
    def num_turns(self) -> int:
        """Steps within which all work of all ranks that can be checked is checked; 0 where none can be."""
        return max(rank.num_turns for rank in self.ranks)

    @property
    def is_shortest(self) -> bool:
        """Whether no choice of checks covers the same in fewer steps."""
        return self.num_turns == max(rank.at_least_turns for rank in self.ranks)

    @property
    def hours_if_always(self) -> float:
        """Hours within which a fault is found that spoils the same piece of checked work in every step."""
        return self.num_turns * self.step_ns / _HOUR_NS

    def errors_until_seen(self, rank: int) -> float | None:
        """Wrong results of a rank until one is seen, mean, if each comes at a random moment of its work, once."""
        share = self.ranks[rank].share
        return 1 / share if share else None


def coverage_of(checks: Sequence[RankChecks], *, step_ns: int) -> Coverage:
    """Return what `checks` of all ranks cover in steps of `step_ns`."""
    return Coverage(ranks=tuple(map(_of_rank, checks)), step_ns=step_ns)


def _of_rank(checks: RankChecks) -> RankCoverage:
    rotation = checks.rotation
    busy_ns = sum(checks.work_ns[cell[:2]] for cell in checks.cells)
    checked_ns = sum(checks.work_ns[check.cell[:2]] for turn in rotation for check in turn)
    never = [cell[:2] for cell in checks.never]
    return RankCoverage(
        num_checks=sum(map(len, rotation)),
        num_turns=len(rotation),
        at_least_turns=fewest_turns(checks),
        kind_turns=_kind_turns(checks),
        share=checked_ns / len(rotation) / busy_ns if rotation and busy_ns else 0.0,
        never_share=sum(checks.work_ns[item] for item in never) / busy_ns if busy_ns else 0.0,
        never=tuple((item, never.count(item)) for item in checks.items if item in never),
    )


def _kind_turns(checks: RankChecks) -> int:
    """Return the most steps from one check of a kind to the next, over rotations that follow each other."""
    count = len(checks.rotation)
    longest = 0
    for item in {cell[:2] for cell in checks.first_places}:
        turns = [number for number, turn in enumerate(checks.rotation) if any(check.cell[:2] == item for check in turn)]
        following = [*turns[1:], turns[0] + count]
        longest = max(longest, *(after - before for before, after in zip(turns, following, strict=True)))
    return longest
