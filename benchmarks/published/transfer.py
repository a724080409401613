"""What a calibration on one source does to predictions of another, and to those of its own other half.

As `evenflow calibrate` does it: the runs of a source on one accelerator make an accelerator file, and all parameters
may be fitted. Runs of the other source on the same accelerator are predicted with that file, and those on others with
what is known by name. Systems of one source that were published apart are sources of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.published.accuracy import DATA
from benchmarks.published.middle import FEWEST
from benchmarks.table import aligned
from evenflow.errors import InputError
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.fitted import FittedReach
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.evidence import counted
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of

FILES = (
    *sorted(path for path in DATA.iterdir() if path.suffix == ".csv"),
    DATA.with_name("held_out") / "modellink_910b.csv",
)
"""Of published runs; other files of `held_out` are for the choice of degrees."""
ROWS = 40
"""Most runs of a source: evenly spread over its rows."""
MOST = 1.1
"""The law: with a calibration on another source, the mean error is at most this many times that with names only."""
Fits = Mapping[str, FittedReach]
"""Of a source, by accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferError:
    """Mean absolute errors of the steps of one source, as shares."""

    calibrated_on: str
    scored: str
    names_only: float
    calibrated: float

    @property
    def ratio(self) -> float:
        """The error with a calibration over that without."""
        return self.calibrated / self.names_only


def read_sources(paths: Iterable[Path]) -> dict[str, tuple[Measurement, ...]]:
    """Return the runs of CSV files that have a step and can be predicted, at most `ROWS` of each source."""
    runs = [completed(run) for path in paths for run in read_runs(path)]
    publications: dict[str, set[str]] = {}
    for run in runs:
        publications.setdefault(run.source, set()).add(_publication(run))
    sources: dict[str, list[Measurement]] = {}
    for run in runs:
        if run.lacks or run.step_s is None:
            continue
        try:
            measurement = replace(measurement_of(run), memory_bytes=None)
            measurement.predicted(Quantity.TIME, measurement.reached)
        except InputError:
            continue
        apart = len(publications[run.source]) > 1
        name = f"{run.source}, {_publication(run).rpartition('/')[2]}" if apart else run.source
        sources.setdefault(name, []).append(measurement)
    return {name: _spread(of) for name, of in sources.items()}


def _publication(run: MeasuredRun) -> str:
    return run.ref.partition(":")[0]


def _spread(runs: Sequence[Measurement]) -> tuple[Measurement, ...]:
    count = min(ROWS, len(runs))
    return tuple(runs[index * len(runs) // count] for index in range(count))


def fits_of(runs: Sequence[Measurement]) -> Fits:
    """Return a fit to the runs on every accelerator."""
    names = dict.fromkeys(run.topology.accelerator.name for run in runs)
    return {name: fit([run for run in runs if run.topology.accelerator.name == name]) for name in names}


def mean_error(runs: Sequence[Measurement], fits: Fits) -> float:
    """Return the mean absolute error of steps."""
    return fmean(abs(_predicted(run, fits) / (run.step_ns or 1) - 1) for run in runs)


def _predicted(run: Measurement, fits: Fits) -> float:
    accelerator, topology = run.topology.accelerator, run.topology
    if accelerator.name in fits:
        topology = replace(topology, accelerator=fits[accelerator.name].calibrated(accelerator))
    return run.predicted(Quantity.TIME, counted(run.training, topology).accelerator.reached)


def over_pairs(sources: Mapping[str, Sequence[Measurement]]) -> list[TransferError]:
    """Return the errors of every ordered pair of sources, the worst first."""
    found = []
    names_only = {name: mean_error(runs, {}) for name, runs in sources.items()}
    for name, runs in sources.items():
        fits = fits_of(runs)
        for other, scored in sources.items():
            if other != name:
                found.append(
                    TransferError(
                        calibrated_on=name, scored=other, names_only=names_only[other],
                        calibrated=mean_error(scored, fits),
                    )
                )  # fmt: skip
    return sorted(found, key=lambda pair: (-pair.ratio, pair.calibrated_on, pair.scored))


def within(sources: Mapping[str, Sequence[Measurement]]) -> list[TransferError]:
    """Return the errors of every half of the sources after a calibration on the other half, both halves together."""
    found = []
    for name, runs in sources.items():
        if len(runs) < FEWEST:
            continue
        halves = [runs[0::2], runs[1::2]]
        known = [mean_error(half, {}) for half in halves]
        after = [mean_error(half, fits_of(other)) for half, other in zip(halves, reversed(halves), strict=True)]
        weights = [len(half) / len(runs) for half in halves]
        before, calibrated = (
            sum(weight * error for weight, error in zip(weights, errors, strict=True)) for errors in (known, after)
        )
        found.append(TransferError(calibrated_on=name, scored=name, names_only=before, calibrated=calibrated))
    return found


def pairs_table(pairs: Sequence[TransferError]) -> str:
    """Return the pairs whose error changes, the worst first, and how many break the law."""
    changed = [pair for pair in pairs if round(pair.ratio, 2) != 1]
    header = ["calibrated on", "scored", "names only %", "calibrated %", "ratio"]
    table = aligned(header, [[pair.calibrated_on, *_cells(pair)] for pair in changed])
    broken = sum(pair.ratio > MOST for pair in pairs)
    rest = f"{len(pairs) - len(changed)} of {len(pairs)} pairs do not change by a hundredth"
    return f"{table}\n{rest}; more than {100 * (MOST - 1):.0f} % worse: {broken}"


def within_table(halves: Sequence[TransferError]) -> str:
    """Return the errors of halves."""
    header = ["calibrated on the other half", "names only %", "calibrated %", "ratio"]
    return aligned(header, [_cells(half) for half in halves])


def _cells(pair: TransferError) -> list[str]:
    return [pair.scored, f"{100 * pair.names_only:.1f}", f"{100 * pair.calibrated:.1f}", f"{pair.ratio:.2f}"]
