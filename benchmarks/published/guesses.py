"""Predictions of published runs beside what was measured, with nothing measured before or with a few points."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.published.predictor import Calibrate, Predicted, Predictor, calibration_points
from benchmarks.published.scores import Error
from evenflow.errors import InputError
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import MeasuredRun

HALF = -1
"""Points: every other run of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A completed run and what was predicted for it."""

    file: str
    run: MeasuredRun
    predicted: Predicted
    refusal: str = ""
    """Why nothing was predicted, empty where something was."""

    @property
    def time(self) -> Error | None:
        """The error of the step; None without a measured or a predicted one."""
        return _error(self.run.id, self.predicted.step_s, self.run.step_s)

    @property
    def memory(self) -> Error | None:
        """The error of the peak memory; None without a measured or a predicted one."""
        return _error(self.run.id, self.predicted.memory_gib, self.run.mem_gib)


def _error(name: str, predicted: float | None, measured: float | None) -> Error | None:
    return None if predicted is None or measured is None else Error(id=name, predicted=predicted, measured=measured)


def guess_all(
    files: Mapping[str, Sequence[MeasuredRun]],
    predictor: Predictor,
    *,
    calibrate: Calibrate | None = None,
    points: int = 0,
) -> list[Guess]:
    """Predict the runs of all files; with `points`, each source after so many of its runs, which are left out.

    `HALF` is half of the runs that have what a prediction needs.

    A source that has too few runs for its points, or that `calibrate` refuses, is left out as a whole.
    """
    every = [(file, completed(run)) for file, runs in files.items() for run in runs]
    if not points or calibrate is None:
        return [_guess(file, run, predictor) for file, run in every]
    found = []
    for source in dict.fromkeys(run.source for _, run in every):
        of = [(file, run) for file, run in every if run.source == source]
        usable = [run for _, run in of if not run.lacks]
        known = calibration_points(usable, len(usable) // 2 if points == HALF else points)
        if not known:
            continue
        try:
            calibrated = calibrate(predictor, known)
        except InputError:
            continue
        found += [_guess(file, run, calibrated) for file, run in of if run not in known]
    return found


def _guess(file: str, run: MeasuredRun, predictor: Predictor) -> Guess:
    nothing = Predicted(step_s=None, memory_gib=None)
    if run.lacks:
        return Guess(file=file, run=run, predicted=nothing, refusal=f"the source does not state {', '.join(run.lacks)}")
    try:
        return Guess(file=file, run=run, predicted=predictor(run))
    except InputError as error:
        return Guess(file=file, run=run, predicted=nothing, refusal=error.message)


def time_errors(guesses: Iterable[Guess]) -> list[Error]:
    """Return the errors of steps, of guesses that have one."""
    return [error for error in (guess.time for guess in guesses) if error]


def memory_errors(guesses: Iterable[Guess]) -> list[Error]:
    """Return the errors of peak memory in GiB, of guesses that have one."""
    return [error for error in (guess.memory for guess in guesses) if error]


def by_source(guesses: Iterable[Guess]) -> Iterator[tuple[str, list[Guess]]]:
    """Return guesses by file and source, in their order; the name has the source only where a file has several."""
    parts: dict[tuple[str, str], list[Guess]] = {}
    for guess in guesses:
        parts.setdefault((guess.file, guess.run.source), []).append(guess)
    num_sources = Counter(file for file, _ in parts)
    for (file, source), part in parts.items():
        stem = Path(file).stem
        yield stem if num_sources[file] == 1 else f"{stem}, {source}", part
