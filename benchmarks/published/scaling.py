"""Whether errors of predicted steps grow with the number of devices."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.published.guesses import Guess, by_source
from benchmarks.table import aligned

FEWEST = 6
"""Runs of a source from which a slope is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """How much more a run is slower than predicted with twice the devices, as a share of its step."""

    runs: int
    devices: tuple[int, int]
    by_doubling: float
    standard_error: float


def slope(guesses: Iterable[Guess]) -> Slope | None:
    """Return the slope over runs of the same model and accelerator on different numbers of devices; None of too few."""
    groups: dict[tuple[object, ...], list[tuple[int, float]]] = {}
    for guess in guesses:
        run, predicted_s = guess.run, guess.predicted.step_s
        if run.step_s and predicted_s and run.gpus and "gpus" not in {each.field for each in run.assumed}:
            key = (run.model, run.hardware)
            groups.setdefault(key, []).append((run.gpus, math.log(run.step_s / predicted_s)))
    several = [group for group in groups.values() if len({devices for devices, _ in group}) > 1]
    count = sum(map(len, several))
    if count < FEWEST:
        return None
    doublings = np.concatenate([_centred([math.log2(devices) for devices, _ in group]) for group in several])
    errors = np.concatenate([_centred([error for _, error in group]) for group in several])
    square = float(doublings @ doublings)
    found = float(doublings @ errors) / square
    left = errors - found * doublings
    freedom = max(1, count - len(several) - 1)
    sizes = [devices for group in several for devices, _ in group]
    return Slope(
        runs=count,
        devices=(min(sizes), max(sizes)),
        by_doubling=found,
        standard_error=math.sqrt(float(left @ left) / freedom / square),
    )


def _centred(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values)
    return array - array.mean()


def scaling_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return the slopes of every source with nothing known."""
    rows = []
    for name, of in by_source(guesses.get(0, ())):
        found = slope(of)
        if found is not None:
            low, high = found.devices
            rows.append(
                [
                    name,
                    str(found.runs),
                    f"{low:,} to {high:,}",
                    f"{100 * found.by_doubling:+.1f}",
                    f"{100 * found.standard_error:.1f}",
                ]
            )
    return aligned(["measured over predicted, by doubling", "runs", "devices", "%", "standard error %"], rows)
