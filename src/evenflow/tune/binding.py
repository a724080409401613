"""What limits a configuration: memory, or the largest share of its step beside the model's own computation."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evenflow.predict.prediction import BUBBLE, PartTime
from evenflow.predict.work import Spent

_SMALL = 0.05
"""Share of the step below which nothing but computation limits."""


class Binding(StrEnum):
    """Something that can limit a step."""

    COMPUTE = "compute"
    MEMORY = "memory"
    """What is recomputed because memory is short."""
    BUBBLE = "bubble"
    TENSOR = "tensor communication"
    CONTEXT = "context communication"
    EXPERT = "expert communication"
    DATA = "data communication"
    PIPELINE = "pipeline communication"


_OF_PARTS = {
    BUBBLE: Binding.BUBBLE,
    Spent.TENSOR: Binding.TENSOR,
    Spent.CONTEXT: Binding.CONTEXT,
    Spent.EXPERT: Binding.EXPERT,
    Spent.DATA: Binding.DATA,
    Spent.PIPELINE: Binding.PIPELINE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What limits a step, and how much."""

    by: Binding
    time_ns: float
    """Time of the step that this takes."""
    rank: int
    """The pipeline rank that holds the most."""
    free_bytes: int
    """What that rank has left of the memory limit."""


def limited(parts: Sequence[PartTime], rank_bytes: Sequence[int], *, limit_bytes: int) -> Limited:
    """Return what limits a step that consists of `parts` and whose ranks hold `rank_bytes`."""
    step_ns = sum(part.exposed_ns for part in parts)
    losses = dict.fromkeys(Binding, 0.0)
    for part in parts:
        by = _OF_PARTS.get(part.name, Binding.COMPUTE)
        losses[Binding.MEMORY] += part.recomputed_ns
        losses[by] += part.exposed_ns - part.recomputed_ns
    by = max((limit for limit in Binding if limit is not Binding.COMPUTE), key=losses.__getitem__)
    if losses[by] < _SMALL * step_ns:
        by = Binding.COMPUTE
    rank = max(range(len(rank_bytes)), key=rank_bytes.__getitem__)
    return Limited(by=by, time_ns=losses[by], rank=rank, free_bytes=limit_bytes - rank_bytes[rank])
