"""The sizes of a pipeline that a command is asked to plan."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.export.results.outcome_fields import AskedSizes

MOST_ACTIONS = 100_000_000
"""Forwards and backwards of one step; more would not fit in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(AskedSizes):
    """The sizes of a pipeline; refuses a step that no machine can hold."""

    def __post_init__(self) -> None:
        check_actions(self.num_ranks * self.num_chunks * self.num_microbatches * self.sequence_splits)


def check_actions(num_forwards: int) -> None:
    """Refuse a step with more forwards than any machine can hold."""
    if 2 * num_forwards > MOST_ACTIONS:
        raise InputError(
            value=2 * num_forwards,
            rule=f"a step has at most {MOST_ACTIONS:,} forwards and backwards",
            place="ranks x chunks x microbatches x sequence splits",
        )
