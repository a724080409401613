"""The memory of every pipeline rank by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Held(StrEnum):
    """What memory is held for."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    NORMS = "activations of norms and residuals"
    ATTENTION = "activations of attention"
    MLP = "activations of MLPs"
    EXPERTS = "activations of experts"
    LOGITS = "logits and loss"
    BUFFERS = "communication buffers"
    RESERVE = "reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """What one rank holds at its fullest moment."""

    parts: Mapping[Held, int]
    """Bytes by what they are held for."""

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return sum(self.parts.values())
