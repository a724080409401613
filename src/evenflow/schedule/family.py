"""A schedule family: how its schedules are made, and what is known of them."""

from collections.abc import Callable
from dataclasses import dataclass

from evenflow.schedule.pattern import Pattern
from evenflow.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFamily:
    """A family of schedules. Its texts say p for ranks, v for chunks per rank, m for microbatches, r for a rank."""

    make: Callable[..., Schedule]
    """Function that makes a schedule from num_ranks, num_microbatches, num_chunks (unless `num_chunks` fixes it),
    sequence_splits (if `can_split`) and group_size (if `has_groups`).
    """
    patterns: tuple[Callable[..., Pattern], ...] = ()
    """Functions that make the family's patterns from num_ranks; the solver makes orders for given times of them."""
    num_chunks: int | None = None
    """The only number of chunks per rank that the family has; None: any."""
    fewest_chunks: int = 1
    """Fewest chunks per rank with which the order is not that of another family."""
    comparison_only: bool = False
    """Whether another family is better in every respect, so that `plan_best` does not try this one."""
    is_v_shaped: bool = False
    """Whether the second of two chunks runs its stages from the last rank to the first; otherwise all chunks run
    theirs from the first rank to the last.
    """
    can_split: bool = True
    """Whether sequences may be split into parts."""
    has_pairs: bool = False
    """Whether forwards run beside backwards, which is of use only where halves of layers are known (see `Halves`)."""
    has_groups: bool = False
    """Whether microbatches go through the chunks in groups, of which another size than the usual one may be chosen."""
    idea: str
    """The order of work in one phrase."""
    limits: str = "any numbers of ranks, chunks and microbatches"
    """Sizes that the family has, as a phrase."""
    memory: str
    """Live activations of rank r (from 0) at its fullest, in whole-rank activations of one microbatch."""
    bubble: str
    """Idle share of the step for equal stages and free messages."""
    paper: str
    """The paper that describes the family."""

    def has_chunks(self, num_chunks: int) -> bool:
        """Return whether the family has orders of its own with this number of chunks per rank."""
        return self.num_chunks in (None, num_chunks) and num_chunks >= self.fewest_chunks
