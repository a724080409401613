"""The memory curve of a plan as a table, and what it says."""

from evenflow.cli.text.tables import aligned
from evenflow.language import _
from evenflow.solve.memory_curve import is_equal
from evenflow.solve.sensitivity import Sensitivity
from evenflow.units import GIGABYTE, megabytes, milliseconds

_SHARE = 0.01
"""Part of the step that memory may cost, for the plan that spares the most."""


def memory_curve_text(worth: Sensitivity) -> str:
    """Return a row for each plan of the curve, then which spares the most memory for little time."""
    points, knees, own = worth.curve.points, worth.curve.knees, place_of_plan(worth)
    rows = []
    for index, point in enumerate(points):
        marks = [_("knee")] if index in knees else []
        marks += [_("least memory")] if point.peak_bytes == worth.curve.least_bytes else []
        marks += [_("this plan")] if index == own else []
        rows.append(
            [
                f"{megabytes(point.peak_bytes):,.0f}",
                f"{milliseconds(point.step_ns):,.3f}",
                f"{100 * (point.step_ns / worth.step_ns - 1):+.2f} %",
                _("optimal") if point.is_optimal else f"{100 * (1 - point.lower_bound_ns / point.step_ns):.2f} %",
                str(point.plan.num_recomputed),
                ", ".join(marks),
            ]
        )
    header = [_("MB on every rank"), _("step ms"), _("longer"), _("gap"), _("layers recomputed"), ""]
    lines = [aligned(header, rows, left={len(header) - 1}, leaving=(4, 3))]
    within = worth.curve.frugal(int(worth.step_ns * (1 + _SHARE)))
    if within is not None and within.peak_bytes < worth.limit_bytes:
        lines.append(
            _(
                "at most {percent:g} % longer with the least memory: {memory:,.1f} GB, {less:,.1f} GB below the limit",
                percent=100 * _SHARE,
                memory=within.peak_bytes / GIGABYTE,
                less=(worth.limit_bytes - within.peak_bytes) / GIGABYTE,
            )
        )
    if worth.curve.is_whole:
        lines.append(
            _("the curve is whole: between these points, no plan of this order is shorter than the one before")
        )
    return "\n".join(lines)


def place_of_plan(worth: Sensitivity) -> int | None:
    """Return the index of the last point within the limit, if it is as short as the plan."""
    points = worth.curve.points
    within = [index for index, point in enumerate(points) if point.peak_bytes <= worth.limit_bytes]
    return within[-1] if within and is_equal(points[within[-1]].step_ns, worth.step_ns) else None
