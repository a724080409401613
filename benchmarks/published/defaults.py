"""What generations of accelerators reach, fitted to published runs, and how far off runs of other sources are.

Generations are fitted one after the other: a later one takes over what its own runs say little about. No source
gives more than a few runs, so that none decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from benchmarks.published.differences import Compared
from benchmarks.published.middle import FEWEST, Range, middle_of
from benchmarks.table import aligned
from evenflow.cluster import generations
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.errors import InputError
from evenflow.predict.calibration.contention import fitted_slowdown, hides_exchanges
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.fitted import ParameterEstimate
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of

ROWS = 80
"""Most runs of a source that are fitted: evenly spread over its rows. The others are for tests."""
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


def rows_of(runs: Iterable[MeasuredRun]) -> list[Row]:
    """Return the runs with a step and a known number of devices.

    A fit to them does not tell their sources apart: `left_out` does, over all stages.
    """
    found = []
    for run in map(completed, runs):
        guessed = {assumption.field for assumption in run.assumed}
        if run.lacks or run.step_s is None or guessed & {"gpus", "dp"}:
            continue
        try:
            measurement = measurement_of(run)
        except InputError:
            continue
        found.append(Row(run=run, measurement=replace(measurement, memory_bytes=None, source="")))
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
    hidden = slowdown([row for row in rows if row.run.source != without], known)
    return known | {stage.generation: known[stage.generation].changed(hidden) for stage in STAGES}


def slowdown(rows: Sequence[Row], known: Mapping[str, Reached]) -> dict[str, float]:
    """Return how much slower computation is beside exchanges of tokens, by its name: of all generations together.

    So few runs hide them that it is one value; each counts by its own step, since their twins are in no file.
    """
    hiding = [row for row in rows if hides_exchanges(row.measurement.training)]
    measurements = [_at(row, known[row.generation]) for row in hiding]
    found = fitted_slowdown(measurements, lambda run: run.reached, is_drawn=False)
    return {found.name: found.after} if isinstance(found, ParameterEstimate) else {}


def _merged(own: Reached, after: Reached, names: Sequence[str]) -> Reached:
    return after.changed({name: getattr(own, name) for name in names})


def _spread(rows: Sequence[Row], source: str) -> list[Row]:
    of = [row for row in rows if row.run.source == source]
    count = min(ROWS, len(of))
    return [of[index * len(of) // count] for index in range(count)] if count >= FEWEST else []


def _at(row: Row, reached: Reached) -> Measurement:
    accelerator = replace(row.measurement.topology.accelerator, reached=reached)
    return replace(row.measurement, topology=replace(row.measurement.topology, accelerator=accelerator))


def left_out(rows: Sequence[Row], done: dict[object, Reached]) -> list[Compared]:
    """Return the runs with their steps as predicted after a fit to other sources."""
    found = []
    for source in dict.fromkeys(row.run.source for row in rows):
        known = fitted_generations(rows, without=source, done=done)
        for row in rows:
            if row.run.source == source:
                step_ns = row.measurement.predicted(Quantity.TIME, known[row.generation])
                found.append(Compared(run=row.run, generation=row.generation, predicted_s=step_ns / 1e9))
    return found


def residuals(compared: Iterable[Compared]) -> dict[str, dict[str, list[float]]]:
    """Return measured over predicted, less one, by kind of run and source."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in compared:
        ratio = (each.run.step_s or 0.0) / each.predicted_s - 1
        for kind in each.kinds:
            found.setdefault(kind, {}).setdefault(each.run.source, []).append(ratio)
    return found


def ranges(of: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Range]:
    """Return low, high, runs and sources by kind: the middle 80 %, every source alike."""
    return {
        kind: middle_of([[ratio] for ratio in ratios] for ratios in by_source.values())
        for kind, by_source in of.items()
    }


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


def write_ranges(found: Mapping[str, Range], into: ModuleType, mark: str = "ranges") -> None:
    """Put the ranges in the place of those in a module: `evenflow.predict.expected_error`, `evenflow.tune.error`."""
    lines = [
        f'    "{kind}": ({low:.3f}, {high:.3f}, {count}, {sources}),\n'
        for kind, (low, high, count, sources) in sorted(found.items())
    ]
    write_lines("".join(lines), into=into, mark=mark)


def write_lines(text: str, *, into: ModuleType, mark: str) -> None:
    """Put lines in the place of those in a module that a mark begins and ends."""
    _replace(Path(str(into.__file__)), f"    # begin: {mark}\n", f"    # end: {mark}\n", text)


def _replace(path: Path, begin: str, end: str, text: str) -> None:
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def ranges_table(found: Mapping[str, Range]) -> str:
    """Return the ranges as a table."""
    header = ["measured beside predicted", "runs", "sources", "10 % are below", "10 % are above"]
    rows = [
        [kind, f"{runs:,}", str(sources), f"{100 * low:+.0f} %", f"{100 * high:+.0f} %"]
        for kind, (low, high, runs, sources) in found.items()
    ]
    return aligned(header, rows)


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):_}".removesuffix(".0") if value >= 1000 else f"{value:.3g}"
