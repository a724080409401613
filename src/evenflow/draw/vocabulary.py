"""Two vocabularies for the same things: ranks and gigabytes, or the SAPP balancer's stages and megabytes."""

from contextlib import AbstractContextManager, nullcontext
from enum import Enum

from evenflow.draw.parts.axes import memory_unit
from evenflow.language import saying_stage
from evenflow.units import MEGABYTE


class Vocabulary(Enum):
    """What pictures call the parts of a pipeline, and the unit in which they give memory."""

    OURS = "ours"
    SAPP = "sapp"

    def rank(self, index: int) -> str:
        """Return the name of one rank."""
        return f"{self.word} {index}"

    def ranks(self, count: int) -> str:
        """Return a number of ranks."""
        return f"{count:,} {self.word}{'s' if count != 1 else ''}"

    @property
    def several(self) -> str:
        """Ranks, in a sentence."""
        return f"{self.word}s"

    def spoken(self) -> AbstractContextManager[None]:
        """Let messages be in this vocabulary for a while."""
        return saying_stage() if self is Vocabulary.SAPP else nullcontext()

    def memory_unit(self, most_bytes: int) -> tuple[int, str]:
        """Return size in bytes and name of the unit for memory up to `most_bytes`."""
        return (MEGABYTE, "MB") if self is Vocabulary.SAPP else memory_unit(most_bytes)

    @property
    def word(self) -> str:
        """One rank, in a sentence."""
        return "stage" if self is Vocabulary.SAPP else "rank"
