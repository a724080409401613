"""The sizes of a pipeline."""

from dataclasses import dataclass, field

from evenflow.asking import check_fields
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.questions import NUM_CHUNKS, NUM_MICROBATCHES, NUM_RANKS, NUM_SEQUENCE_SPLITS

MOST_ACTIONS = 4_000_000
"""Most forwards and backwards of one step: a simulation holds 100 bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a pipeline, whatever its order of work. Refuses numbers below one and steps too long to handle."""

    num_ranks: int = field(metadata=NUM_RANKS)
    num_chunks: int = field(default=1, metadata=NUM_CHUNKS)
    """Model chunks (virtual stages) of each rank."""
    num_microbatches: int = field(metadata=NUM_MICROBATCHES)
    sequence_splits: int = field(default=1, metadata=NUM_SEQUENCE_SPLITS)
    """Parts that each sequence is cut into."""

    def __post_init__(self) -> None:
        check_fields(self)
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
