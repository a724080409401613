"""Measurements that are repeated while they scatter, until their medians are known."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import torch
import torch.distributed as dist

ENOUGH = 0.03
"""The standard error, relative, at which medians are known."""
MOST_ROUNDS = 5
_MOST_SECONDS = 20.0
"""After this no further round begins."""

Times = Sequence[Sequence[int]]
"""Nanoseconds of each of several things, measured again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The times of all rounds."""

    times: Times
    """Of each thing on this rank, those of one moment at the same place."""
    rounds: int
    error: float
    """Standard error of the sum of the medians, relative to it, on the rank that knows it least."""

    @property
    def medians_ns(self) -> tuple[int, ...]:
        """The median of each thing."""
        return tuple(round(statistics.median(one)) for one in self.times)


def settled(measure: Callable[[], Times], device: torch.device) -> Settled:
    """Call `measure` until all ranks know their medians, or there is no time for more; every rank calls this.

    Each call returns new times of the same things, a rank's own.
    """
    times: list[list[int]] = []
    start = monotonic()
    rounds, is_settled = 0, False
    while not is_settled and rounds < MOST_ROUNDS:
        rounds += 1
        new = measure()
        times = [[*old, *more] for old, more in zip(times or [[] for _ in new], new, strict=True)]
        state = torch.tensor([relative_error(times), monotonic() - start], dtype=torch.float64, device=device)
        dist.all_reduce(state, dist.ReduceOp.MAX)
        error, passed_s = state.tolist()
        is_settled = error <= ENOUGH or passed_s >= _MOST_SECONDS
    return Settled(times=times, rounds=rounds, error=error)


def relative_error(times: Times) -> float:
    """Return the standard error of the sum of the medians of `times`, relative to it; no times have none.

    It follows from the quartiles, which a few long times do not move, as if the rest were normally distributed; errors
    of several medians are added up, since the load that causes them is the same.
    """
    total = sum(statistics.median(one) for one in times)
    return sum(_standard_error(one) for one in times) / total if total else 0.0


def _standard_error(times: Sequence[int]) -> float:
    if len(times) < 2:
        return 0.0
    first, _, third = statistics.quantiles(times, n=4, method="inclusive")
    # sqrt(pi / 2) standard deviations over sqrt(n), of which 1.349 are between the quartiles.
    return 0.929 * (third - first) / len(times) ** 0.5
