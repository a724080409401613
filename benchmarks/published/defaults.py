"""What generations of accelerators reach, fitted to published runs, and how far off runs of other sources are.

Generations are fitted one after the other: a later one takes over what its own runs say little about. No source
gives more than a few runs, so that none decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.table import aligned
from evenflow.cluster import generations
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.errors import InputError
from evenflow.predict import expected_error
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.expected_error import kinds_of
from evenflow.profiles.measured.as_measurement import measurement_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import MeasuredRun

ROWS = 80
"""Most runs of a source that are fitted: evenly spread over its rows. The others are for tests."""
FEWEST = 5
"""Fewest runs of a source that are fitted: the oddities of two or three would decide."""
HELD_OUT = ("bigscience-tr11",)
"""Sources that are never fitted, as a test of the accelerators that have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A generation, what is fitted to its runs, and whose values the rest are."""

    generation: str
    after: str
    names: tuple[str, ...]


STAGES = (
    Stage(
        generation="Ampere",
        after="Ampere",
        names=(
            "product_share",
            "attention_share",
            "memory_share",
            "operator_ns",
            "link_share",
            "network_share",
            "latency_ns",
            "step_ns",
        ),
    ),
    Stage(generation="Volta", after="Ampere", names=("product_share",)),
    Stage(
        generation="Hopper",
        after="Ampere",
        names=("product_share", "attention_share", "network_share", "low_precision_share"),
    ),
    Stage(generation="Blackwell", after="Hopper", names=("product_share", "low_precision_share")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A run that can be fitted."""

    run: MeasuredRun
    measurement: Measurement

    @property
    def generation(self) -> str:
        """Of its accelerator."""
        return self.measurement.topology.accelerator.generation

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of its kinds in `evenflow.predict.expected_error`."""
        return kinds_of(self.generation, has_experts=bool(self.run.experts))


def rows_of(runs: Iterable[MeasuredRun]) -> list[Row]:
    """Return the runs with a step and a known number of devices."""
    found = []
    for run in map(completed, runs):
        guessed = {assumption.field for assumption in run.assumed}
        if run.lacks or run.step_s is None or guessed & {"gpus", "dp"}:
            continue
        try:
            measurement = measurement_of(run)
        except InputError:
            continue
        found.append(Row(run=run, measurement=replace(measurement, memory_bytes=None)))
    return found


def fitted_generations(
    rows: Sequence[Row], *, without: str = "", done: dict[object, Reached] | None = None
) -> dict[str, Reached]:
    """Return what every generation reaches, fitted to `rows` of other sources than `without`.

    `done` keeps fits, so that one to the same rows from the same start is not done again.
    """
    known = {**GENERATIONS, **{stage.generation: Reached() for stage in STAGES}}
    done = {} if done is None else done
    for stage in STAGES:
        start = _merged(known[stage.generation], known[stage.after], stage.names)
        of = [row for row in rows if row.generation == stage.generation and row.run.source != without]
        of = [row for row in of if not row.run.experts and row.run.source not in HELD_OUT]
        chosen = [row for source in dict.fromkeys(row.run.source for row in of) for row in _spread(of, source)]
        if chosen:
            key = (stage, start, tuple(row.run.id for row in chosen))
            if key not in done:
                fitted = fit([_at(row, start) for row in chosen], stage.names).applied(start)
                done[key] = replace(fitted, standard_errors={})
            start = done[key]
        known[stage.generation] = start
    return known


def _merged(own: Reached, after: Reached, names: Sequence[str]) -> Reached:
    return after.changed({name: getattr(own, name) for name in names})


def _spread(rows: Sequence[Row], source: str) -> list[Row]:
    of = [row for row in rows if row.run.source == source]
    count = min(ROWS, len(of))
    return [of[index * len(of) // count] for index in range(count)] if count >= FEWEST else []


def _at(row: Row, reached: Reached) -> Measurement:
    accelerator = replace(row.measurement.topology.accelerator, reached=reached)
    return replace(row.measurement, topology=replace(row.measurement.topology, accelerator=accelerator))


def left_out_residuals(rows: Sequence[Row], done: dict[object, Reached]) -> dict[str, dict[str, list[float]]]:
    """Return measured over predicted, less one, by kind of run and source, each from a fit to other sources."""
    found: dict[str, dict[str, list[float]]] = {}
    for source in dict.fromkeys(row.run.source for row in rows):
        known = fitted_generations(rows, without=source, done=done)
        for row in rows:
            if row.run.source == source:
                predicted = row.measurement.predicted(Quantity.TIME, known[row.generation])
                ratio = row.measurement.step_ns / predicted - 1  # type: ignore[operator]
                for kind in row.kinds:
                    found.setdefault(kind, {}).setdefault(source, []).append(ratio)
    return found


def ranges(residuals: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, tuple[float, float, int, int]]:
    """Return low, high, runs and sources by kind: the middle 80 %.

    Every source has the same weight, but one of fewer than `FEWEST` runs less, in proportion.
    """
    found = {}
    for kind, by_source in residuals.items():
        values = np.concatenate([np.asarray(list(of)) for of in by_source.values()])
        weights = np.concatenate([np.full(len(of), 1 / max(len(of), FEWEST)) for of in by_source.values()])
        order = np.argsort(values)
        reached = np.cumsum(weights[order]) / weights.sum()
        low, high = (float(values[order][np.searchsorted(reached, share)]) for share in (0.1, 0.9))
        found[kind] = (low, high, len(values), len(by_source))
    return found


def generations_text(known: Mapping[str, Reached]) -> str:
    """Return the source text of `evenflow.cluster.generations.GENERATIONS`, without its first and last line."""
    usual = Reached()
    lines = []
    for generation, reached in known.items():
        names = [name for name in PARAMETERS if getattr(reached, name) != getattr(usual, name)]
        values = [f"        {name}={_short(getattr(reached, name))}," for name in names]
        lines += [f'    "{generation}": Reached(', *values, "    ),"]
    return "\n".join(lines)


def write_generations(known: Mapping[str, Reached]) -> None:
    """Put the fitted generations in the place of those in `evenflow.cluster.generations`."""
    fitted = {stage.generation: known[stage.generation] for stage in STAGES}
    _replace(
        Path(generations.__file__), "    # begin: fitted\n", "    # end: fitted\n", generations_text(fitted) + "\n"
    )


def write_ranges(found: Mapping[str, tuple[float, float, int, int]]) -> None:
    """Put the ranges in the place of those in `evenflow.predict.expected_error`."""
    lines = [
        f'    "{kind}": ({low:.3f}, {high:.3f}, {runs}, {sources}),\n'
        for kind, (low, high, runs, sources) in sorted(found.items())
    ]
    _replace(Path(expected_error.__file__), "    # begin: ranges\n", "    # end: ranges\n", "".join(lines))


def _replace(path: Path, begin: str, end: str, text: str) -> None:
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def ranges_table(found: Mapping[str, tuple[float, float, int, int]]) -> str:
    """Return the ranges as a table."""
    header = ["measured beside predicted", "runs", "sources", "10 % are below", "10 % are above"]
    rows = [
        [kind, f"{runs:,}", str(sources), f"{100 * low:+.0f} %", f"{100 * high:+.0f} %"]
        for kind, (low, high, runs, sources) in found.items()
    ]
    return aligned(header, rows)


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):_}".removesuffix(".0") if value >= 1000 else f"{value:.3g}"
