"""Whether predictions choose the configuration that is fastest when measured."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from evenflow.profiles.measured.run import MeasuredRun

_GROUP = ("source", "hardware", "model", "heads", "gpus", "seq", "precision", "gbs")
LEAST = 3
"""Fewer configurations make no choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How a group of configurations was ranked."""

    name: str
    count: int
    tau: float | None
    """Kendall's tau-b: 1 for the measured order, -1 for its reverse; None where all are equal."""
    regret: float
    """How much slower the configuration that is predicted to be the fastest is than the fastest one, as a share."""


def ranking_groups(runs: Iterable[MeasuredRun]) -> Mapping[str, tuple[MeasuredRun, ...]]:
    """Return timed runs that differ in nothing but their configuration, by name, where there are at least `LEAST`."""
    groups: dict[tuple[object, ...], list[MeasuredRun]] = {}
    for run in runs:
        if run.step_s is not None:
            groups.setdefault(tuple(getattr(run, name) for name in _GROUP), []).append(run)
    return {
        _name(key): tuple(group) for key, group in groups.items() if len({run.configuration for run in group}) >= LEAST
    }


def _name(key: Sequence[object]) -> str:
    parts = [(name, value) for name, value in zip(_GROUP, key, strict=True) if value is not None]
    return ", ".join(f"{value}" if isinstance(value, str) else f"{name} {value}" for name, value in parts)


def rank(name: str, pairs: Sequence[tuple[MeasuredRun, float]]) -> Ranking | None:
    """Return how a group was ranked by predicted steps; None where too few configurations have one.

    A configuration that was measured several times counts once, with the mean of its steps.
    """
    several: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for run, predicted_s in pairs:
        if run.step_s is not None:
            several.setdefault(run.configuration, []).append((predicted_s, run.step_s))
    if len(several) < LEAST:
        return None
    predicted = [fmean(each for each, _ in of) for of in several.values()]
    measured = [fmean(each for _, each in of) for of in several.values()]
    return Ranking(
        name=name, count=len(several), tau=kendall_tau(predicted, measured), regret=regret(predicted, measured)
    )


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two lists of equal length; None where all values of a list are equal.

    >>> kendall_tau([1, 2, 3], [10, 20, 30]), kendall_tau([3, 2, 1], [10, 20, 30]), kendall_tau([1, 1], [1, 2])
    (1.0, -1.0, None)
    """
    pairs = list(combinations(zip(one, other, strict=True), 2))
    signs = [(_sign(first[0] - second[0]), _sign(first[1] - second[1])) for first, second in pairs]
    untied = sum(sign != 0 for sign, _ in signs) * sum(sign != 0 for _, sign in signs)
    return sum(mine * theirs for mine, theirs in signs) / math.sqrt(untied) if untied else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def regret(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Return by which share the choice is slower than the best; of equal predictions the slowest is the choice.

    >>> regret([1.0, 2.0], [5.0, 4.0])
    0.25
    """
    first = min(predicted)
    chosen = max(time for guess, time in zip(predicted, measured, strict=True) if guess == first)
    return chosen / min(measured) - 1
