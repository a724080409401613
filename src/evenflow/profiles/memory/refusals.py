"""Why peaks do not determine the memory: which unknown, which stage, and what to run."""

from collections.abc import Sequence

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE
from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL
from evenflow.profiles.memory.least_squares import LeastSquares, outliers, undetermined
from evenflow.profiles.memory.peaks import DryRuns, Peak
from evenflow.units import MEGABYTE, megabytes

_MAY_BE_ZERO = (CONSTANT, PARAMETER, HEAD, TAIL)
_MOST_STAGES = 3
"""Number of stages to name where no single one is to blame."""


def label(name: str) -> str:
    """Return what an unknown is called: ``parameter``, ``activation (select)``."""
    return part_name(name) if name in _MAY_BE_ZERO else _("activation ({kind})", kind=name)


def part_name(name: str) -> str:
    """Return what a part is called; a recompute kind is called by its name."""
    names = {CONSTANT: _("constant"), PARAMETER: _("parameter"), HEAD: _("head"), TAIL: _("tail")}
    return names.get(name, name)


def with_error(value_bytes: float, error_bytes: float) -> str:
    """Return a value with its standard error, like ``-812.3 ± 30.1 MB``."""
    return f"{megabytes(round(value_bytes)):,.1f} ± {megabytes(round(error_bytes)):,.1f} MB"


def check_determined(dry_runs: DryRuns, every: Sequence[str], unknowns: Sequence[str], *, needed: int) -> None:
    """Refuse peaks of fewer than `needed` middle stages, and peaks that leave some of `unknowns` open."""
    kinds = [name for name in every if name not in _MAY_BE_ZERO]
    if dry_runs.num_middle < needed:
        raise InputError(
            value=dry_runs.num_middle,
            rule=_(
                "must have peaks of {needed} middle stages for parameter and activations ({names}), and "
                "of {more} for a constant too",
                needed=needed,
                names=", ".join(kinds),
                more=needed + 1,
            ),
            place=dry_runs.place,
            remedy=_what_to_run(dry_runs, unknowns, kinds, missing=needed - dry_runs.num_middle),
        )
    matrix = dry_runs.matrix(unknowns)
    open_names = [unknowns[column] for column in undetermined(matrix)]
    if open_names:
        raise InputError(
            rule=_(
                "must determine {names}, but {reason}",
                names=", ".join(map(label, open_names)),
                reason=_why_open(dry_runs, open_names),
            ),
            place=dry_runs.place,
            remedy=_what_to_run(dry_runs, unknowns, kinds),
        )


def negative(
    dry_runs: DryRuns, unknowns: Sequence[str], solution: LeastSquares, name: str, error_bytes: float
) -> InputError:
    """Return the refusal of an unknown that is negative, or of an activation that is not above zero."""
    column = unknowns.index(name)
    kinds = [other for other in unknowns if other not in _MAY_BE_ZERO]
    cause = suspects(dry_runs, solution)
    if not cause:
        order = np.argsort(-np.abs(solution.weights[column]), kind="stable")[:_MOST_STAGES]
        shares = (f"{dry_runs.name(dry_runs.peaks[row])} ({solution.weights[column][row]:+.2f})" for row in order)
        cause = _("it depends most on {shares}", shares=", ".join(shares))
    return InputError(
        value=with_error(solution.values[column], error_bytes),
        rule=_("must give {name} a memory that is not negative", name=label(name))
        if name in _MAY_BE_ZERO
        else _("must give {name} a memory above zero", name=label(name)),
        place=dry_runs.place,
        remedy=_(
            "check the peaks, their offsets and their recompute counts ({cause}), or measure the dry runs of {guide}",
            cause=cause,
            guide=_guide(dry_runs, kinds),
        ),
    )


def suspects(dry_runs: DryRuns, solution: LeastSquares) -> str:
    """Return the stages whose peak alone is out of line with all others, as a sentence; empty for none."""
    only_rounded = solution.squared_residuals <= len(solution.residuals) * MEGABYTE**2
    rows = [] if only_rounded else outliers(solution)
    off = (
        f"{dry_runs.name(dry_runs.peaks[row])} "
        f"({megabytes(round(solution.residuals[row] / (1 - solution.leverages[row]))):+,.0f} MB)"
        for row in rows
    )
    return _("{peaks} is far from what the others say", peaks=_(" or ").join(off)) if rows else ""


def _why_open(dry_runs: DryRuns, names: Sequence[str]) -> str:
    columns = dict(zip(names, dry_runs.matrix(names).T, strict=True))
    for name, missing in (
        (HEAD, _("there is no peak of the first stage")),
        (TAIL, _("there is no peak of the last stage")),
    ):
        if name in columns and not columns[name].any():
            return missing
    for name, column in columns.items():
        if not column.any():
            return _("no measured stage has layers of {name}", name=label(name))
        if name not in _MAY_BE_ZERO and np.count_nonzero(column) == 1:
            peak = dry_runs.peaks[int(np.flatnonzero(column)[0])]
            return _("{name} occurs on {peak} alone", name=label(name), peak=dry_runs.name(peak))
    if CONSTANT in columns and PARAMETER in columns and len(set(columns[PARAMETER].tolist())) == 1:
        return _(
            "all of them have {layers:.0f} layers, which hides the constant in the parameters",
            layers=columns[PARAMETER][0],
        )
    return _("cannot tell {names} apart", names=", ".join(map(label, names)))


def _what_to_run(dry_runs: DryRuns, unknowns: Sequence[str], kinds: Sequence[str], *, missing: int = 0) -> str:
    """Return what to run next: the missing stages of the same dry runs, or other dry runs."""
    added: list[Peak] = []
    for peak in _not_measured(dry_runs):
        matrix = dry_runs.matrix(unknowns, [*dry_runs.peaks, *added])
        if len(added) >= missing and not undetermined(matrix):
            break
        if np.linalg.matrix_rank(dry_runs.matrix(unknowns, [*dry_runs.peaks, *added, peak])) > np.linalg.matrix_rank(
            matrix
        ):
            added.append(peak)
    if added and not undetermined(dry_runs.matrix(unknowns, [*dry_runs.peaks, *added])):
        return _("add the peaks of {peaks}", peaks=", ".join(map(dry_runs.name, added)))
    return _("measure the dry runs of {guide}", guide=_guide(dry_runs, kinds))


def _not_measured(dry_runs: DryRuns) -> list[Peak]:
    known = {(peak.round_index, peak.rank) for peak in dry_runs.peaks}
    return [
        Peak(round_index=index, rank=rank, peak_bytes=0)
        for index, plan in enumerate(dry_runs.rounds)
        for rank in range(1, plan.num_ranks - 1)
        if (index, rank) not in known
    ]


def _guide(dry_runs: DryRuns, kinds: Sequence[str]) -> str:
    chosen = ",".join(kind for kind in kinds if kind != NONE) or NONE
    sizes = f"--ranks {dry_runs.num_ranks} --layers {dry_runs.rounds[0].num_layers}"
    return f"evenflow guide {sizes} --recompute {chosen}"
