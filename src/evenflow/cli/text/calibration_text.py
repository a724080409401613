"""A calibration as text."""

from collections.abc import Iterator

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.predict.calibration.fitted import FittedReach, ParameterEstimate, QuantityFit, Residual
from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.measured.to_calibrate import RunsToCalibrate
from evenflow.units import GIGABYTE, milliseconds

_MOST_RUNS = 12
"""Runs of a table; the JSON has all."""
_MOST_NOTES = 5
_CORRELATED = 0.8
"""Estimates that move together so much are named."""


def calibration_text(fitted: FittedReach, runs: RunsToCalibrate) -> str:
    """Return the fitted parameters, what was not fitted and why, errors before and after, and runs beside both."""
    head = _n("{count} run on {device}", "{count} runs on {device}", count=len(runs.measurements),
              device=runs.accelerator.name)  # fmt: skip
    paragraphs = [
        head,
        _estimates_table(fitted.estimates),
        "\n".join(_correlated(fitted)),
        _not_fitted_table(fitted),
        "\n".join(line for part in fitted.parts for line in _errors(part)),
        *(_runs_table(part) for part in fitted.parts if part.residuals),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _estimates_table(estimates: tuple[ParameterEstimate, ...]) -> str:
    if not estimates:
        return _("nothing was fitted: every value stays as it was")
    header = [_("fitted"), _("before"), _("after"), _("standard error"), _("runs that depend on it"), ""]
    rows = [
        [
            estimate.name,
            _value(estimate.name, estimate.before),
            _value(estimate.name, estimate.after),
            "" if estimate.standard_error is None else _value(estimate.name, estimate.standard_error),
            str(estimate.runs),
            _("at its limit") if estimate.is_at_limit else "",
        ]
        for estimate in estimates
    ]
    return aligned(header, rows, left={0, 5}, leaving=(4, 3))


def _correlated(fitted: FittedReach) -> Iterator[str]:
    for part in fitted.parts:
        for (name, other), value in part.correlations.items():
            if abs(value) >= _CORRELATED:
                yield _(
                    "{one} and {other} are fitted together: correlation {value:+.2f}",
                    one=name,
                    other=other,
                    value=value,
                )


def _not_fitted_table(fitted: FittedReach) -> str:
    left = [unfitted for part in fitted.parts for unfitted in part.not_fitted]
    if not left:
        return ""
    rows = [[unfitted.name, _value(unfitted.name, unfitted.value), unfitted.reason] for unfitted in left]
    return aligned([_("not fitted"), _("value"), _("why")], rows, left={0, 2})


def _errors(part: QuantityFit) -> Iterator[str]:
    if part.error_before is None or part.error_after is None:
        return
    values = {"before": 100 * part.error_before, "after": 100 * part.error_after}
    if part.quantity is Quantity.TIME:
        yield _("mean error of steps: {before:.1f} % before, {after:.1f} % after", **values)
    else:
        yield _("mean error of memory: {before:.1f} % before, {after:.1f} % after", **values)
    if part.error_expected is not None:
        yield _(
            "expected of other runs like these: {expected:.1f} %, from fits without each of them",
            expected=100 * part.error_expected,
        )
        if part.estimates and part.error_expected >= part.error_before:
            yield _("the fit does not help other runs: fit fewer parameters (--fit), or give more runs")


def _runs_table(part: QuantityFit) -> str:
    by_error = sorted(part.residuals, key=lambda residual: (-abs(residual.error_after), residual.name))
    is_time = part.quantity is Quantity.TIME
    unit = _("step ms") if is_time else _("memory GB")
    rows = [
        [residual.name, _amount(residual.measured, is_time), _amount(residual.after, is_time), *_percents(residual)]
        for residual in by_error[:_MOST_RUNS]
    ]
    header = [_("run, the worst first"), unit, _("predicted"), _("before %"), _("after %")]
    table = aligned(header, rows, left={0}, leaving=(3,))
    more = len(by_error) - len(rows)
    return f"{table}\n{_n('and {count} more', 'and {count} more', count=more)}" if more else table


def _percents(residual: Residual) -> list[str]:
    return [f"{100 * residual.error_before:+.1f}", f"{100 * residual.error_after:+.1f}"]


def _amount(value: float, is_time: bool) -> str:
    return f"{milliseconds(round(value)):,.1f}" if is_time else f"{value / GIGABYTE:,.2f}"


def _value(name: str, value: float) -> str:
    """Return a value with its unit."""
    if name.endswith("_ns"):
        return f"{value / 1e3:,.1f} us" if value < 1e6 else f"{milliseconds(round(value)):,.1f} ms"
    if name.endswith("_bytes"):
        return f"{value / GIGABYTE:,.2f} GB"
    return f"{value:.3f}" if name.endswith(("_share", "_slowdown")) else f"{value:,.1f}"


def calibration_notes(runs: RunsToCalibrate) -> Iterator[str]:
    """Return what was assumed of runs, and which were left out."""
    for assumption, count in runs.assumed:
        yield _n(
            "{count} run does not state {field}: {value} is taken ({reason})",
            "{count} runs do not state {field}: {value} is taken ({reason})",
            count=count,
            field=assumption.field,
            value=assumption.value,
            reason=assumption.reason,
        )
    for run in runs.left_out[:_MOST_NOTES]:
        yield _("{name} is left out: {reason}", name=run.name, reason=run.reason)
    more = len(runs.left_out) - _MOST_NOTES
    if more > 0:
        yield _n("{count} more run is left out", "{count} more runs are left out", count=more)
