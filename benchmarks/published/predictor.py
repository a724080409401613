"""What is scored: a function from a published run to a predicted step and peak memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenflow.profiles.measured.run import MeasuredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A step and the peak memory of the rank in the run's `mem_rank`; None for what cannot be predicted."""

    step_s: float | None
    memory_gib: float | None


Predictor = Callable[[MeasuredRun], Predicted]
"""Gets completed runs and must not look at what was measured."""
Calibrate = Callable[[Predictor, Sequence[MeasuredRun]], Predictor]
"""From a predictor and measured runs of one source to a predictor that knows them."""


def calibration_points(runs: Sequence[MeasuredRun], count: int) -> tuple[MeasuredRun, ...]:
    """Return `count` runs that are spread evenly over the measured ones, from the shortest step to the longest.

    They are taken from runs with step and memory, where these are more than `count`, otherwise from those with a step,
    and then from those with memory, ordered by that. None come back where no run would be left to score.
    """
    timed = [run for run in runs if run.step_s is not None]
    weighed = [run for run in runs if run.mem_gib is not None]
    both = [run for run in timed if run.mem_gib is not None]
    richest = next((of for of in (both, timed, weighed) if 0 < count < len(of)), None)
    if richest is None:
        return ()
    ordered = sorted(richest, key=lambda run: (run.step_s or 0.0, run.mem_gib or 0.0, run.id))
    return tuple(ordered[(2 * index + 1) * len(ordered) // (2 * count)] for index in range(count))
