"""How far off mixtures of experts are, and how wide an interval must be that holds four of five of them.

No rate is fitted to them but how much slower computation is beside exchanges of tokens. A source is what one
publication measured of one model: its runs share a recipe, and what is wrong with it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.published import defaults
from benchmarks.published.accuracy import DATA
from benchmarks.published.middle import FEWEST, Range, shrunk_middle_of
from benchmarks.published.sweeps import HELD_OUT
from benchmarks.table import aligned
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import Reached
from evenflow.predict.calibration.contention import hides_exchanges, without_hiding
from evenflow.predict.calibration.measurement import Quantity
from evenflow.predict.expected_error import kinds_of
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A measured run of a mixture, and its steps as predicted."""

    run: MeasuredRun
    generation: str
    step_s: float
    """With the names of model, degrees and accelerator alone."""
    left_out_s: float
    """The same without what mixtures of its publication say; rates are those of all dense runs."""

    @property
    def source(self) -> str:
        """What its publication measured of its model."""
        return f"{self.run.source}, {self.run.model}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of mixtures, the narrowest first."""
        return kinds_of(self.generation, has_experts=True)[:-1]

    def ratio(self) -> float:
        """Return measured over predicted, less one, of the step without what its publication says."""
        return (self.run.step_s or 0.0) / self.left_out_s - 1


RUNS = Path(__file__).with_name("mixtures.csv")
"""Runs that no rate is fitted to, of models that no other file has, and pairs of runs with and without overlap."""
INSIDE = 0.8
"""Runs that an interval should hold, as a share."""
_REPEATED = 0.01
"""Half of the width, in logarithms, of the narrowest interval: runs do not repeat better."""
_ROUNDING = 1e-9
"""Weights that are added up in another order differ by less."""
Left = Callable[[Mixture], object]
"""What is left out together."""


def read_mixtures(paths: Iterable[Path] = ()) -> list[defaults.Row]:
    """Return the runs of mixtures that have a step and a known number of devices, those that are held out too."""
    files = list(paths) or [path for path in (*DATA.iterdir(), *HELD_OUT.iterdir(), RUNS) if path.suffix == ".csv"]
    runs = [run for path in sorted(files) for run in read_runs(path) if run.experts]
    return defaults.rows_of(runs)


def fitted_slowdown(rows: Sequence[defaults.Row], *, without: str = "") -> Mapping[str, Reached]:
    """Return what generations reach, with the slowdown of pairs fitted to runs of `DATA` of other publications."""
    usual = {name: reached.changed({"pair_slowdown": Reached().pair_slowdown}) for name, reached in GENERATIONS.items()}
    of = [row for row in rows if row.run.source != without and row.run.split != "held out"]
    found = defaults.slowdown(of, usual)
    return {name: reached.changed(found) for name, reached in usual.items()}


def compare(rows: Sequence[defaults.Row], known: Mapping[str, Reached]) -> list[Mixture]:
    """Return the runs with both predictions; `known` is what generations reach."""
    found = []
    for publication in dict.fromkeys(row.run.source for row in rows):
        others = fitted_slowdown(rows, without=publication)
        for row in rows:
            if row.run.source != publication:
                continue
            measurement = row.measurement
            step_s, left_out_s = (
                measurement.predicted(Quantity.TIME, reached) / 1e9
                for reached in (known[row.generation], others[row.generation])
            )
            found.append(Mixture(run=row.run, generation=row.generation, step_s=step_s, left_out_s=left_out_s))
    return found


def ranges(mixtures: Sequence[Mixture]) -> dict[str, Range]:
    """Return low, high, runs and sources by kind, as wide as it takes to hold four of five runs of other sources."""
    factor = _widening(mixtures)
    return {kind: _widened(of, factor) for kind, of in _middles(mixtures).items()}


def _widening(mixtures: Sequence[Mixture]) -> float:
    """Return how many times as wide intervals must be: they are those of the sources that are known.

    It is the least at which runs of each source in turn are inside of intervals from the others, every source alike but
    those of few runs.
    """
    outside: list[tuple[float, float]] = []
    for source in dict.fromkeys(mixture.source for mixture in mixtures):
        of = [mixture for mixture in mixtures if mixture.source == source]
        known = _middles([mixture for mixture in mixtures if mixture.source != source])
        if known:
            outside += [(_distance(mixture, known), 1 / max(len(of), FEWEST)) for mixture in of]
    reached, every = 0.0, sum(weight for _distance, weight in outside)
    for distance, weight in sorted(outside):
        reached += weight
        if reached >= INSIDE * every - _ROUNDING:
            return max(1.0, distance)
    return 1.0


def _distance(mixture: Mixture, known: Mapping[str, Range]) -> float:
    """Return how many times as wide its interval must be to hold a run."""
    low, high, *_counts = next(known[kind] for kind in mixture.kinds if kind in known)
    middle, half = _middle_and_half(low, high)
    return abs(math.log1p(mixture.ratio()) - middle) / half


def _middle_and_half(low: float, high: float) -> tuple[float, float]:
    """Return the middle of an interval of ratios, and half of its width, in logarithms."""
    return (math.log1p(low) + math.log1p(high)) / 2, max(_REPEATED, (math.log1p(high) - math.log1p(low)) / 2)


def _widened(of: Range, factor: float) -> Range:
    low, high, runs, sources = of
    middle, half = _middle_and_half(low, high)
    return math.expm1(middle - factor * half), math.expm1(middle + factor * half), runs, sources


def _middles(mixtures: Sequence[Mixture]) -> dict[str, Range]:
    """Return the middle 80 % by kind, each drawn towards the wider kind as by one more source of it."""
    found: dict[str, Range] = {}
    for kind in dict.fromkeys(kind for mixture in mixtures for kind in mixture.kinds):
        of = [mixture for mixture in mixtures if kind in mixture.kinds]
        wider = mixtures if len(of) < len(mixtures) else []
        found[kind] = shrunk_middle_of(_by_source(of), _by_source(wider))
    return found


def _by_source(mixtures: Iterable[Mixture]) -> list[list[list[float]]]:
    by_source: dict[str, list[list[float]]] = {}
    for mixture in mixtures:
        by_source.setdefault(mixture.source, []).append([mixture.ratio()])
    return list(by_source.values())


def inside(mixtures: Sequence[Mixture], left: Left | None = None) -> dict[str, bool]:
    """Return whether each run is inside the interval, by its id; with `left` of a range without what is left out."""
    found = {}
    for part in dict.fromkeys(map(left, mixtures)) if left else (None,):
        of = [mixture for mixture in mixtures if left is None or left(mixture) == part]
        known = ranges([mixture for mixture in mixtures if left is None or left(mixture) != part])
        for mixture in of:
            low, high, *_counts = next(known[kind] for kind in mixture.kinds if kind in known)
            found[mixture.run.id] = low <= mixture.ratio() <= high
    return found


def table(mixtures: Sequence[Mixture]) -> str:
    """Return errors and intervals by source, and of all Hopper and all other mixtures."""
    header = ["steps of mixtures", "runs", "error %", "bias %", "left out %"]
    header += ["inside", "source left out", "publication"]
    within = [
        inside(mixtures),
        inside(mixtures, lambda mixture: mixture.source),
        inside(mixtures, lambda mixture: mixture.run.source),
    ]
    sources = dict.fromkeys((mixture.generation, mixture.source) for mixture in mixtures)
    rows = []
    for generation in dict.fromkeys(generation for generation, _source in sources):
        own = [mixture for mixture in mixtures if mixture.generation == generation]
        for _generation, source in (each for each in sources if each[0] == generation):
            rows.append(_cells(f"{generation}: {source}", [of for of in own if of.source == source], within))
        rows.append(_cells(f"{generation}, all", own, within))
    rows.append(_cells("all", mixtures, within))
    return aligned(header, rows)


def _cells(name: str, of: Sequence[Mixture], within: Sequence[Mapping[str, bool]]) -> list[str]:
    measured = [mixture.run.step_s or 0.0 for mixture in of]
    errors, left_out = (
        [predicted / step - 1 for predicted, step in zip(steps, measured, strict=True)]
        for steps in ([mixture.step_s for mixture in of], [mixture.left_out_s for mixture in of])
    )
    percents = [f"{100 * fmean(map(abs, errors)):.1f}", f"{100 * fmean(errors):+.1f}"]
    shares = [f"{100 * fmean(each[mixture.run.id] for mixture in of):.0f} %" for each in within]
    return [name, str(len(of)), *percents, f"{100 * fmean(map(abs, left_out)):.1f}", *shares]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlappedPair:
    """A run that hides exchanges of tokens, and its twin that hides nothing."""

    run: MeasuredRun
    alone_s: tuple[float, float]
    """Step of the twin, predicted and measured."""
    beside_s: tuple[float, float]
    """Step of the run, predicted and measured."""

    @property
    def after_alone(self) -> float:
        """Error of the step in pairs where the prediction is scaled by what the twin took, as a share."""
        predicted, measured = self.alone_s
        return self.beside_s[0] * measured / predicted / self.beside_s[1] - 1


def overlapped_pairs(rows: Sequence[defaults.Row], known: Mapping[str, Reached]) -> list[OverlappedPair]:
    """Return all measured runs that hide exchanges, each with its twin, where there is one."""
    found = []
    without = {without_hiding(row.measurement): row for row in rows if not hides_exchanges(row.measurement.training)}
    for row in rows:
        twin = without.get(without_hiding(row.measurement))
        if twin is None or not hides_exchanges(row.measurement.training):
            continue
        alone_s, beside_s = (
            (of.measurement.predicted(Quantity.TIME, known[of.generation]) / 1e9, of.run.step_s or 0.0)
            for of in (twin, row)
        )
        found.append(OverlappedPair(run=row.run, alone_s=alone_s, beside_s=beside_s))
    return found


def pairs_table(pairs: Sequence[OverlappedPair]) -> str:
    """Return the pairs as a table."""
    header = ["with exchanges hidden", "alone s", "predicted", "error %", "hidden s", "predicted", "error %"]
    header += ["measured ratio", "predicted", "error % with alone known"]
    rows = [
        [pair.run.id, *_steps(pair.alone_s), *_steps(pair.beside_s), f"{pair.beside_s[1] / pair.alone_s[1]:.3f}",
         f"{pair.beside_s[0] / pair.alone_s[0]:.3f}", f"{100 * pair.after_alone:+.1f}"]
        for pair in pairs
    ]  # fmt: skip
    return aligned(header, rows)


def _steps(of: tuple[float, float]) -> list[str]:
    predicted, measured = of
    return [f"{measured:.2f}", f"{predicted:.2f}", f"{100 * (predicted / measured - 1):+.1f}"]
