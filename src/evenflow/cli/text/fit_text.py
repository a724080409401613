"""A memory fit as text."""

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.profiles.init.init_file import InitFile
from evenflow.profiles.memory.fit import MemoryEstimate, MemoryFit
from evenflow.profiles.memory.peaks import Peak
from evenflow.profiles.memory.refusals import label
from evenflow.units import megabytes

_MOST_STAGES = 3
"""Stages that are named behind an unknown; the JSON has all."""


def fit_text(init: InitFile, fit: MemoryFit) -> str:
    """Return unknowns with their errors and the stages behind them, every peak beside its equation, and the notes."""
    runs = fit.dry_runs
    unknowns = len(runs.peaks) - fit.degrees_of_freedom
    rounds = _n("1 dry run", "{count} dry runs", count=len(runs.rounds))
    head = _(
        "{file}: {num_layers} layers on {num_ranks} stages, {rounds}, {num_peaks} peaks",
        file=init.file,
        num_layers=init.num_layers,
        num_ranks=runs.num_ranks,
        rounds=rounds,
        num_peaks=len(runs.peaks),
    )
    return "\n\n".join([head, _unknowns_table(fit), _peaks_table(fit), _evidence(fit, unknowns)])


def fit_summary(fit: MemoryFit) -> str:
    """Return every unknown in a line, then the notes."""
    lines = [f"  {label(estimate.name)}: {_value(estimate)}" for estimate in fit.estimates]
    return "\n".join([*lines, *(_("  note: {note}", note=note) for note in fit.notes)])


def _unknowns_table(fit: MemoryFit) -> str:
    if any(estimate.free_bytes is not None for estimate in fit.estimates):
        rows = [
            [label(estimate.name), _value_and_error(estimate)[0], _free(estimate), _behind(fit, estimate)]
            for estimate in fit.estimates
        ]
        return aligned(["", "MB", _("MB without bound"), _("determined most by")], rows, left={0, 3})
    rows = [[label(estimate.name), *_value_and_error(estimate), _behind(fit, estimate)] for estimate in fit.estimates]
    return aligned(["", "MB", _("standard error"), _("determined most by")], rows, left={0, 3})


def _peaks_table(fit: MemoryFit) -> str:
    runs = fit.dry_runs
    several = len(runs.rounds) > 1
    header = [
        *([_("round")] if several else []),
        _("stage"),
        _("layers"),
        *fit.kinds,
        _("measured MB"),
        _("computed MB"),
        _("residual MB"),
    ]
    rows = []
    for peak, residual in sorted(
        zip(runs.peaks, fit.residuals_bytes, strict=True), key=lambda pair: (pair[0].round_index, pair[0].rank)
    ):
        plan = runs.rounds[peak.round_index]
        counts = [plan.layers[0][peak.rank], *(plan.count(kind, 0, peak.rank) for kind in fit.kinds)]
        sizes = [_megabytes(peak.peak_bytes), _megabytes(peak.peak_bytes - residual), f"{megabytes(residual):+,.1f}"]
        rows.append([*([str(peak.round_index + 1)] if several else []), str(peak.rank), *map(str, counts), *sizes])
    return aligned(header, rows)


def _evidence(fit: MemoryFit, unknowns: int) -> str:
    peaks, free = len(fit.dry_runs.peaks), fit.degrees_of_freedom
    if free:
        origin = _("from the residuals of {peaks} peaks for {unknowns} unknowns", peaks=peaks, unknowns=unknowns)
    else:
        origin = _(
            "that of rounding to 1 MB alone, because {peaks} peaks for {unknowns} unknowns leave no residual",
            peaks=peaks,
            unknowns=unknowns,
        )
    error = _("standard error of a peak: {error} MB, {origin}", error=_megabytes(fit.peak_error_bytes), origin=origin)
    lines = [
        error,
        _("condition number: {number:.1f}", number=fit.condition_number),
        _("constant: fitted") if fit.constant_fitted else _("constant: not fitted"),
    ]
    return "\n".join([*lines, *(_("note: {note}", note=note) for note in fit.notes)])


def _behind(fit: MemoryFit, estimate: MemoryEstimate) -> str:
    """Return the stages with the largest weights."""

    def weight_of(pair: tuple[Peak, float]) -> float:
        return abs(pair[1])

    pairs = sorted(zip(fit.dry_runs.peaks, estimate.weights, strict=True), key=weight_of, reverse=True)
    return ", ".join(f"{fit.dry_runs.name(peak)} ({weight:+.2g})" for peak, weight in pairs[:_MOST_STAGES] if weight)


def _free(estimate: MemoryEstimate) -> str:
    return "" if estimate.free_bytes is None else f"{megabytes(estimate.free_bytes):,.2f}"


def _value(estimate: MemoryEstimate) -> str:
    value, error = _value_and_error(estimate)
    return f"{value} ± {error} MB" if error else f"{value} MB"


def _value_and_error(estimate: MemoryEstimate) -> tuple[str, str]:
    error = estimate.standard_error_bytes
    return f"{megabytes(estimate.value_bytes):,.2f}", "" if error is None else f"{megabytes(error):,.2f}"


def _megabytes(size_bytes: int) -> str:
    return f"{megabytes(size_bytes):,.1f}"
