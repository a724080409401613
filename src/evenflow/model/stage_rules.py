"""Where a model lets its layers be: which of them stay together, and which stages may hold them."""

from enum import StrEnum

from evenflow.language import _


class StageRule(StrEnum):
    """A rule for the stage that holds a layer; the names are those of a layer file."""

    ALONE = "alone"
    """No other body layer is in its stage."""
    LAST_RANK = "last_rank"
    """Its stage is on the last rank."""
    NOT_FIRST_RANK = "not_first_rank"
    """Its stage is not on rank 0."""
    LAST_CHUNK = "last_chunk"
    """Its stage is in the last chunk of its rank."""
    LAST_STAGE = "last_stage"
    """Its stage is the last one along the network."""

    def allows(self, *, chunk: int, rank: int, num_chunks: int, num_ranks: int, is_last: bool) -> bool:
        """Return whether the stage of this cell may hold the layer; what else it holds does not count.

        `is_last` says whether it is the last stage along the network.
        """
        if self is StageRule.LAST_STAGE:
            return is_last
        if self is StageRule.LAST_RANK:
            return rank == num_ranks - 1
        if self is StageRule.NOT_FIRST_RANK:
            return rank > 0
        return self is not StageRule.LAST_CHUNK or chunk == num_chunks - 1

    @property
    def words(self) -> str:
        """What the layer must be, as the rule of a message."""
        if self is StageRule.ALONE:
            return _("must be the only body layer of its stage")
        if self is StageRule.LAST_RANK:
            return _("must be on the last rank")
        if self is StageRule.NOT_FIRST_RANK:
            return _("must not be on rank 0")
        if self is StageRule.LAST_STAGE:
            return _("must be in the last stage")
        return _("must be in the last chunk of its rank")
