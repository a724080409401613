"""Peaks of dry runs, as the rows of the memory equations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.memory.equations import coefficients
from evenflow.profiles.memory.least_squares import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The highest memory of one stage in one dry run."""

    round_index: int
    rank: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRuns:
    """Dry runs of the same numbers of ranks and layers, and the peaks that were measured in them."""

    rounds: tuple[Plan, ...]
    """Plans with one chunk under 1F1B and with as many microbatches as ranks."""
    peaks: tuple[Peak, ...]
    place: str
    """Place of the peaks, for messages."""

    @property
    def num_ranks(self) -> int:
        """Pipeline ranks of every round."""
        return self.rounds[0].num_ranks

    @property
    def num_middle(self) -> int:
        """Number of peaks of ranks other than the first and the last."""
        return sum(0 < peak.rank < self.num_ranks - 1 for peak in self.peaks)

    @property
    def measured(self) -> Array:
        """The measured bytes, by peak."""
        return np.array([peak.peak_bytes for peak in self.peaks], dtype=np.float64)

    def matrix(self, unknowns: Sequence[str], peaks: Sequence[Peak] | None = None) -> Array:
        """Return the equations ``[peak][unknown]`` of the measured peaks, or of `peaks` where they are given."""
        rows = [
            coefficients(self.rounds[peak.round_index], peak.rank, unknowns)
            for peak in (self.peaks if peaks is None else peaks)
        ]
        return np.array(rows, dtype=np.float64)

    def name(self, peak: Peak) -> str:
        """Return the name of a peak: ``stage 3``, or with several rounds ``stage 3 of round 1``, counted from 1."""
        if len(self.rounds) == 1:
            return _("stage {stage}", stage=peak.rank)
        return _("stage {stage} of round {round}", stage=peak.rank, round=peak.round_index + 1)
