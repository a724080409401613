"""Two vocabularies for the same things: ranks and gigabytes, or the SAPP balancer's stages and megabytes."""

from enum import Enum

from evenflow.draw.parts.axes import memory_unit
from evenflow.language import _, _n
from evenflow.units import MEGABYTE


class Vocabulary(Enum):
    """What pictures and tables call the parts of a pipeline, and the unit in which they give memory."""

    OURS = "ours"
    SAPP = "sapp"

    def rank(self, index: int) -> str:
        """Return the name of one rank."""
        return _("stage {index}", index=index) if self is Vocabulary.SAPP else _("rank {index}", index=index)

    def ranks(self, count: int) -> str:
        """Return a number of ranks."""
        if self is Vocabulary.SAPP:
            return _n("{count:,} stage", "{count:,} stages", count=count)
        return _n("{count:,} rank", "{count:,} ranks", count=count)

    @property
    def heading(self) -> str:
        """The heading of a column of ranks."""
        return _("stage") if self is Vocabulary.SAPP else _("rank")

    @property
    def several(self) -> str:
        """Ranks, in a sentence."""
        return _("stages") if self is Vocabulary.SAPP else _("ranks")

    def memory_unit(self, most_bytes: int) -> tuple[int, str]:
        """Return size in bytes and name of the unit for memory up to `most_bytes`."""
        return (MEGABYTE, "MB") if self is Vocabulary.SAPP else memory_unit(most_bytes)
