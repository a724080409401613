"""What there is to know of a schedule family."""

from collections.abc import Callable
from dataclasses import dataclass

from evenflow.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of schedules. In the texts: p ranks, v chunks a rank, m microbatches, rank r from 0."""

    make: Callable[..., Schedule]
    """Takes num_ranks and num_microbatches; num_chunks unless `num_chunks` fixes it; sequence_splits if `can_split`."""
    num_chunks: int | None = None
    """The only number of chunks that it has; None: any."""
    fewest_chunks: int = 1
    """With fewer it has the order of another family."""
    comparison_only: bool = False
    """Whether another family is better in every respect: `plan_best` does not try it."""
    is_v_shaped: bool = False
    """Whether the second of its two chunks runs the stages from the last rank to the first; else they go round."""
    can_split: bool = True
    """Whether it runs sequences that are split."""
    idea: str
    limits: str = "any numbers of ranks, chunks and microbatches"
    memory: str
    """Live activations of rank r at its fullest, in whole-rank activations of one microbatch."""
    bubble: str
    """Idle share of the step for equal stages and free messages."""
    paper: str
