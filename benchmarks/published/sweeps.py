"""What a choice of degrees costs on published sweeps: by evenflow's prediction, and by the usual rules.

A choice is the configuration that comes first among those that were measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.published.guesses import guess_all
from benchmarks.published.prediction import predicted
from benchmarks.published.ranking import ranking_groups
from benchmarks.published.reachable import reachable
from benchmarks.published.usual_rules import RULES, Score
from benchmarks.table import aligned
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun

HELD_OUT = Path(__file__).with_name("held_out")
"""Sweeps that nothing is fitted to: neither what accelerators reach, nor an expected error."""
LEAST_NOISE = 0.03
"""Measured steps that differ by less are equal, also where no configuration was measured twice."""
OWN = "evenflow"
AT_BEST = "at best"
"""Whoever knows how long each configuration takes, where the runs of a source scatter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A configuration of a sweep: a run of it, its mean step, and what every method says of it."""

    run: MeasuredRun
    measured_s: float
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a method ranked a sweep."""

    regret: float
    agreed: int
    """Pairs beyond the noise that it ranked as measured, less those that it ranked in reverse."""
    pairs: int
    """Pairs beyond the noise."""


def held_out_s() -> dict[MeasuredRun, float]:
    """Return the completed runs of the sweeps that are held out, with their predicted steps."""
    files = {str(path): read_runs(path) for path in sorted(HELD_OUT.iterdir())}
    guesses = guess_all(files, predicted)
    return {guess.run: guess.predicted.step_s for guess in guesses if guess.predicted.step_s is not None}


def swept(group: Sequence[tuple[MeasuredRun, float]]) -> list[Swept]:
    """Return the configurations of a sweep of completed runs with their predicted steps."""
    several: dict[tuple[object, ...], list[tuple[MeasuredRun, float]]] = {}
    for run, predicted_s in group:
        several.setdefault(run.configuration, []).append((run, predicted_s))
    found = []
    for of in several.values():
        run = of[0][0]
        training, topology = training_of(run)
        scores = {OWN: (fmean(predicted_s for _, predicted_s in of),)}
        scores |= {name: rule(training, topology) for name, rule in RULES.items()}
        found.append(Swept(run=run, measured_s=fmean(each.step_s or 0.0 for each, _ in of), scores=scores))
    return found


def noise(groups: Iterable[Sequence[MeasuredRun]]) -> float:
    """Return by which share steps of a source differ without a reason.

    Four of five pairs of runs of the same configuration are closer, but it is at least `LEAST_NOISE`.
    """
    found = []
    for group in groups:
        several: dict[tuple[object, ...], list[float]] = {}
        for run in group:
            several.setdefault(run.configuration, []).append(run.step_s or 0.0)
        for steps in several.values():
            found += [max(pair) / min(pair) - 1 for pair in combinations(steps, 2)]
    return max(LEAST_NOISE, float(np.quantile(found, 0.8))) if found else LEAST_NOISE


def choice(points: Sequence[Swept], method: str, *, above: float) -> Choice:
    """Return how a method ranked a sweep, in whose pairs differences up to the share `above` are noise.

    Any of equal scores may be the choice, so their mean counts; such pairs agree in nothing.
    """
    agreed = pairs = 0
    for one, other in combinations(points, 2):
        slow, fast = sorted((one, other), key=lambda point: -point.measured_s)
        if slow.measured_s > (1 + above) * fast.measured_s:
            pairs += 1
            agreed += (slow.scores[method] > fast.scores[method]) - (slow.scores[method] < fast.scores[method])
    first = min(point.scores[method] for point in points)
    chosen_s = fmean(point.measured_s for point in points if point.scores[method] == first)
    return Choice(regret=chosen_s / min(point.measured_s for point in points) - 1, agreed=agreed, pairs=pairs)


def sweep_table(predicted_s: Mapping[MeasuredRun, float]) -> str:
    """Return regret and tau of every method by source, from completed runs with their predicted steps."""
    by_source: dict[str, list[tuple[MeasuredRun, ...]]] = {}
    for group in ranking_groups(predicted_s).values():
        by_source.setdefault(group[0].source, []).append(group)
    rows = []
    for source, groups in by_source.items():
        above = noise(groups)
        sweeps = [swept([(run, predicted_s[run]) for run in group]) for group in groups]
        for method in (OWN, *RULES):
            choices = [choice(points, method, above=above) for points in sweeps]
            regrets = [each.regret for each in choices]
            rows.append([
                source, method, str(len(groups)), f"{100 * fmean(regrets):.1f}", f"{100 * max(regrets):.1f}",
                f"{sum(each <= above for each in regrets)}", _tau(choices), f"{sum(each.pairs for each in choices):,}",
                f"{100 * above:.0f}",
            ])  # fmt: skip
        rows.append([source, AT_BEST, str(len(groups)), *_at_best(sweeps, above)])
    header = ["sweeps of", "chosen by", "sweeps", "mean regret %", "worst regret %", "within noise", "tau", "of pairs"]
    header.append("noise %")
    return aligned(header, rows)


def _at_best(sweeps: Sequence[Sequence[Swept]], above: float) -> list[str]:
    """Return the columns of the right order. Runs scatter by the noise, which is too much where it is `LEAST_NOISE`."""
    found = [reachable([point.measured_s for point in points], scatter=above, above=above) for points in sweeps]
    regrets = [each.regret for each in found]
    tau = f"{fmean(each.tau for each in found):.2f}"
    return [f"{100 * fmean(regrets):.1f}", f"{100 * max(regrets):.1f}", "-", tau, "-", f"{100 * above:.0f}"]


def _tau(choices: Sequence[Choice]) -> str:
    """Return the mean tau of the sweeps that have pairs beyond the noise."""
    taus = [each.agreed / each.pairs for each in choices if each.pairs]
    return f"{fmean(taus):.2f}" if taus else "-"
