"""The sizes of a pipeline."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import CHUNKS, MICROBATCHES, RANKS, SEQUENCE_SPLITS

MOST_ACTIONS = 4_000_000
"""Most forwards and backwards of one step: a simulation holds 100 bytes for each."""


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
        for place, count, within in (
            (_("the number of ranks"), self.num_ranks, RANKS),
            (_("the number of chunks"), self.num_chunks, CHUNKS),
            (_("the number of microbatches"), self.num_microbatches, MICROBATCHES),
            (_("the number of sequence splits"), self.sequence_splits, SEQUENCE_SPLITS),
        ):
            within.check(count, place=place)
        num_actions = 2 * self.num_cells * self.num_units
        if num_actions > MOST_ACTIONS:
            raise InputError(
                value=num_actions,
                rule=_("must be at most {limit:,} forwards and backwards, to be simulated", limit=MOST_ACTIONS),
                place=_("2 x ranks x chunks x microbatches x sequence splits"),
                remedy=_("plan a step of fewer microbatches"),
            )

    @property
    def num_cells(self) -> int:
        """Number of cells ``[chunk][rank]``, one for each stage."""
        return self.num_ranks * self.num_chunks

    @property
    def num_units(self) -> int:
        """Number of microbatches, or of their parts where sequences are split."""
        return self.num_microbatches * self.sequence_splits
