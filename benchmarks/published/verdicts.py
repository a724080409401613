"""Whether published runs fit, as predicted: how often that is right, and how far off predicted memory was.

Every run that has a step or a reading of its memory did fit; notes of others begin with `DIED`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.published.middle import FEWEST
from benchmarks.table import aligned
from evenflow.errors import InputError
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.limits.checks import check_training
from evenflow.predict.memory import fit_probability
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of
from evenflow.tune.question import USUAL_CONFIDENCE

DIED = "OUT OF MEMORY"
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Shares of readings whose ratios are written down."""
_WIDE = 2048
"""Memory of narrower models is mostly overhead."""
_OF_DEVICES = {"gpus", "dp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a run lived, and how likely that was as predicted."""

    run: MeasuredRun
    lived: bool
    probability: float


def stating(run: MeasuredRun, words: str) -> MeasuredRun:
    """Return a run whose software is told in `words` too."""
    return replace(run, overlap_flags=f"{run.overlap_flags or ''} {words}".strip()) if words else run


def verdicts(runs: Iterable[MeasuredRun]) -> list[Verdict]:
    """Return the verdicts on all runs that ran or died on a known number of devices, and can be predicted."""
    found = []
    for run in runs:
        has_died = (run.notes or "").startswith(DIED)
        if not (has_died or run.step_s or run.mem_gib):
            continue
        measurement = _measurement(run)
        if measurement is not None:
            prediction = measurement.prediction(measurement.reached)
            limit = measurement.topology.accelerator.memory_bytes
            probability = fit_probability(prediction.memory, limit)
            found.append(Verdict(run=run, lived=not has_died, probability=probability))
    return found


def _measurement(run: MeasuredRun) -> Measurement | None:
    whole = completed(run)
    if whole.lacks or _OF_DEVICES & {assumption.field for assumption in whole.assumed}:
        return None
    try:
        measurement = measurement_of(whole)
        check_training(measurement.training, measurement.topology.accelerator)
    except InputError:
        return None
    return measurement


def verdict_table(every: Iterable[Verdict]) -> str:
    """Return by source how many runs that lived are refused, and how many that died are caught."""
    by_source: dict[str, list[Verdict]] = {}
    for verdict in every:
        by_source.setdefault(verdict.run.source, []).append(verdict)
    rows = []
    for source, of in by_source.items():
        lived = [verdict.probability for verdict in of if verdict.lived]
        died = [verdict.probability for verdict in of if not verdict.lived]
        cells = [_below(group, limit) for group in (lived, died) for limit in (0.5, USUAL_CONFIDENCE)]
        rows.append([source, str(len(lived)), *cells[:2], str(len(died)), *cells[2:]])
    usual = f"below {USUAL_CONFIDENCE:.0%}"
    header = ["probability to fit", "lived", "below 50%", usual, "died", "below 50%", usual]
    return aligned(header, rows)


def _below(probabilities: Sequence[float], limit: float) -> str:
    if not probabilities:
        return "-"
    count = sum(probability < limit for probability in probabilities)
    return f"{count} ({100 * count / len(probabilities):.1f} %)"


def ratios(runs: Iterable[MeasuredRun]) -> dict[str, list[float]]:
    """Return measured over predicted memory by source, of models that are wide enough, on known devices."""
    found: dict[str, list[float]] = {}
    for run in runs:
        measurement = _measurement(run) if run.mem_gib is not None and (run.hidden or 0) >= _WIDE else None
        if measurement is not None and measurement.memory_bytes is not None:
            predicted = measurement.predicted(Quantity.MEMORY, measurement.reached)
            found.setdefault(run.source, []).append(measurement.memory_bytes / predicted)
    return found


def quantiles(of: Mapping[str, Sequence[float]], shares: Sequence[float] = SHARES) -> list[tuple[float, float]]:
    """Return the ratio that a share of readings is at most, for each of `shares`: in the middle between two readings.

    Every source weighs the same, but one of fewer than `FEWEST` readings less.
    """
    values = np.concatenate([np.asarray(values) for values in of.values()])
    weights = np.concatenate([np.full(len(values), 1 / max(len(values), FEWEST)) for values in of.values()])
    order = np.argsort(values)
    reached = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    return [(share, float(np.interp(share, reached, values[order]))) for share in shares]


def quantile_lines(of: Sequence[tuple[float, float]]) -> str:
    """Return the source text of the quantiles of `evenflow.predict.memory_error`."""
    return "".join(f"    ({share:g}, {ratio:.3f}),\n" for share, ratio in of)


def left_out_table(of: Mapping[str, Sequence[float]]) -> str:
    """Return how many readings of a source lie within what the other sources say of nine of ten readings."""
    rows = []
    for source, values in of.items():
        others = {name: known for name, known in of.items() if name != source}
        within = "-"
        if others:
            ((_share, most),) = quantiles(others, (USUAL_CONFIDENCE,))
            within = f"{100 * sum(value <= most for value in values) / len(values):.0f} % ({most:.2f})"
        low, middle, high = (f"{float(np.quantile(values, share)):.2f}" for share in (0.1, 0.5, 0.9))
        rows.append([source, str(len(values)), low, middle, high, within])
    header = ["measured over predicted memory", "readings", "10 % below", "median", "90 % below"]
    return aligned([*header, "within 90 % of the other sources"], rows)
