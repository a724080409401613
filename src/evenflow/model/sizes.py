"""The sizes of a pipeline."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _

MOST_ACTIONS = 100_000_000
"""Most forwards and backwards of one step; more do not fit in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a pipeline, whatever its order of work. Refuses numbers below one and steps too long to handle."""

    num_ranks: int
    num_chunks: int = 1
    """Model chunks (virtual stages) of each rank."""
    num_microbatches: int
    sequence_splits: int = 1
    """Parts that each sequence is cut into."""

    def __post_init__(self) -> None:
        for place, count in (
            (_("the number of ranks"), self.num_ranks),
            (_("the number of chunks"), self.num_chunks),
            (_("the number of microbatches"), self.num_microbatches),
            (_("the number of sequence splits"), self.sequence_splits),
        ):
            if count < 1:
                raise InputError(value=count, rule=_("must be at least 1"), place=place)
        num_actions = 2 * self.num_cells * self.num_units
        if num_actions > MOST_ACTIONS:
            raise InputError(
                value=num_actions,
                rule=_("must be at most {limit:,} forwards and backwards", limit=MOST_ACTIONS),
                place=_("ranks x chunks x microbatches x sequence splits"),
            )

    @property
    def num_cells(self) -> int:
        """Number of cells ``[chunk][rank]``, one for each stage."""
        return self.num_ranks * self.num_chunks

    @property
    def num_units(self) -> int:
        """Number of microbatches, or of their parts where sequences are split."""
        return self.num_microbatches * self.sequence_splits
