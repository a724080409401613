"""A pattern: when one microbatch passes each stage, and how often the next one follows. [arXiv:2405.15362, §3.1]

The paper calls it a building block. Repeated, it gives every action a time; only the order of these times counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule.action import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Times of one microbatch in units, by stage."""

    forwards: tuple[int, ...]
    gradients: tuple[int, ...]
    """Units at which input gradients, or whole backwards, begin."""
    period: int
    """Units from one microbatch to the next."""

    @property
    def num_stages(self) -> int:
        """Number of stages."""
        return len(self.forwards)


def v_pattern(rows: Sequence[tuple[int, int, int, int]], *, period: int) -> Pattern:
    """Return the pattern whose `rows` give, for each rank of a V, F and F of chunks 0 and 1, I and I of 1 and 0."""
    down, up, up_gradients, down_gradients = zip(*rows, strict=True)
    return Pattern(forwards=(*down, *reversed(up)), gradients=(*down_gradients, *reversed(up_gradients)), period=period)


def unrolled(
    pattern: Pattern, *, stage_ranks: Sequence[int], num_units: int, splits: NDArray[np.bool_], sequence_splits: int = 1
) -> NDArray[np.int64]:
    """Return ops, stages and places of all actions in the order of the pattern, shape [3, num_actions].

    The place of an action is its number among those of its kind on its stage. Stages in `splits` split their backwards:
    each rank runs its oldest weight gradient in every unit that the pattern leaves free. The parts of a split sequence
    run backward in reverse, so gradients wait for the last part.
    """
    waits = pattern.period * (sequence_splits - 1)
    rows: list[tuple[int, int, int, int, int]] = []
    for rank in range(max(stage_ranks) + 1):
        taken: set[int] = set()
        waiting: list[tuple[int, int, int]] = []
        for stage in (stage for stage, own in enumerate(stage_ranks) if own == rank):
            for place in range(num_units):
                forward = pattern.forwards[stage] + pattern.period * place
                gradient = pattern.gradients[stage] + pattern.period * place + waits
                taken.update((forward, gradient))
                rows.append((forward, stage, int(Op.F), stage, place))
                # Of two gradients in one unit the later stage's comes first, since the other one needs it.
                rows.append((gradient, -stage, int(Op.I if splits[stage] else Op.B), stage, place))
                if splits[stage]:
                    waiting.append((gradient, stage, place))
        unit = -1
        for gradient, stage, place in sorted(waiting):
            unit = max(unit, gradient) + 1
            while unit in taken:
                unit += 1
            rows.append((unit, len(stage_ranks), int(Op.W), stage, place))
    rows.sort()
    return np.array([row[2:] for row in rows], dtype=np.int64).T.copy()
