"""How far off differences are between two configurations of one model on the same devices.

Most of what a prediction has wrong, it has wrong alike in both: what the accelerator reaches, what a source left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from benchmarks.published.middle import Range, middle_of
from benchmarks.published.ranking import ranking_groups
from benchmarks.table import aligned
from evenflow.predict.expected_error import kinds_of
from evenflow.profiles.measured.run import MeasuredRun

NEAR = 1.25
"""Only configurations that are predicted to be this close: nobody confuses others, and they differ in everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A run with its predicted step."""

    run: MeasuredRun
    generation: str
    """Of its accelerator."""
    predicted_s: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of its kinds in `evenflow.predict.expected_error`."""
        return kinds_of(self.generation, has_experts=bool(self.run.experts))


Differences = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
"""By kind of run and source: those of each group."""


def differences(compared: Iterable[Compared]) -> Differences:
    """Return how far off the near pairs of all groups are: measured ratio over predicted ratio, less one.

    A ratio is that of the configuration that is predicted to be slower to the other one, so that a value below
    `1 / predicted ratio - 1` is a pair whose order was wrong.
    """
    by_run = {each.run: each for each in compared}
    found: dict[str, dict[str, list[list[float]]]] = {}
    for group in ranking_groups(by_run).values():
        values = _of_group([by_run[run] for run in group])
        if values:
            for kind in by_run[group[0]].kinds:
                found.setdefault(kind, {}).setdefault(group[0].source, []).append(values)
    return found


def _of_group(group: Sequence[Compared]) -> list[float]:
    """Return the differences of a group; a configuration that was measured several times counts once."""
    several: dict[tuple[object, ...], list[Compared]] = {}
    for each in group:
        several.setdefault(each.run.configuration, []).append(each)
    points = sorted(
        (fmean(each.predicted_s for each in of), fmean(each.run.step_s or 0.0 for each in of))
        for of in several.values()
    )
    return [
        (measured / first_measured) / (predicted / first_predicted) - 1
        for (first_predicted, first_measured), (predicted, measured) in combinations(points, 2)
        if predicted <= NEAR * first_predicted
    ]


def difference_ranges(of: Differences) -> dict[str, Range]:
    """Return low, high, pairs and sources by kind: the middle 80 %, every source and every group in it alike."""
    return {kind: middle_of(by_source.values()) for kind, by_source in of.items()}


def difference_table(found: Mapping[str, Range]) -> str:
    """Return the ranges as a table."""
    header = ["differences", "pairs", "sources", "10 % are below", "10 % are above", "told apart from"]
    rows = [
        [
            kind,
            f"{pairs:,}",
            str(sources),
            f"{100 * low:+.0f} %",
            f"{100 * high:+.0f} %",
            f"{100 / (1 + low) - 100:.0f} %",
        ]
        for kind, (low, high, pairs, sources) in found.items()
    ]
    return aligned(header, rows)
