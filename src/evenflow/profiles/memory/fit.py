"""The memory of every part of a model from the peaks of dry runs. [SAPP guide, 内存分解原理]

The unknowns are constant, parameter, an activation for no recomputation and for each kind that was run, head and tail;
`equations` says how they make up a peak. All are found together by least squares. Head and tail stand in the equation
of one stage each, so they are what the peak of that stage has beyond what the middle stages say, and the middle stages
alone decide the rest. Every peak counts the same, because a log rounds each to a whole megabyte, large or small.
"""

import math
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE, ordered_kinds
from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL, PeakError
from evenflow.profiles.memory import refusals
from evenflow.profiles.memory.least_squares import LeastSquares, not_negative, solve
from evenflow.profiles.memory.peaks import DryRuns
from evenflow.units import MEGABYTE, megabytes

ROUNDING_BYTES = MEGABYTE / math.sqrt(12)
"""Standard deviation of a peak that a log rounds to a whole megabyte: the least error that is assumed."""

_MAY_BE_ZERO = (CONSTANT, PARAMETER, HEAD, TAIL)
_MOST_OF_PEAK = 0.1
"""Share of a peak that a fit with a value held at zero may be off for plans to be made from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """The estimate of one unknown."""

    name: str
    """`constant`, `parameter`, `head`, `tail`, or the recompute kind whose activation it is."""
    value_bytes: int
    free_bytes: int | None
    """Value without the bound at zero; None where no bound holds any value back."""
    standard_error_bytes: int | None
    """None for a constant that was not fitted, and for all where a value is held at zero, whose error is not known."""
    weights: tuple[float, ...]
    """How much the value moves when a peak moves by one, by peak; all zero for a value that was taken as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """The memory of every part, and how sure it is."""

    dry_runs: DryRuns
    estimates: tuple[MemoryEstimate, ...]
    """Estimates of constant (0 where it was not fitted), parameter, activations in cell order, head and tail."""
    residuals_bytes: tuple[int, ...]
    """Measured less computed bytes, by peak."""
    constant_fitted: bool
    degrees_of_freedom: int
    """Peaks beyond the unknowns."""
    peak_error_bytes: int
    """Standard error of one peak: from the residuals, never less than `ROUNDING_BYTES`."""
    condition_number: float
    """Growth of a relative error of the peaks at most, for equations with columns of length one."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the estimates, in squares of the error of one peak, ``[estimate][estimate]``; 0 for what is held at zero."""
    notes: tuple[str, ...]
    """Sentences that a reader should know."""
    refusal: InputError | None
    """Why no plan should be made from this: negative values that hide a wrong peak, or a layer that keeps nothing."""

    @property
    def peak_error(self) -> PeakError:
        """How far peaks that are computed from the estimates may be off."""
        return PeakError(
            standard_error_bytes=self.peak_error_bytes,
            degrees_of_freedom=self.degrees_of_freedom,
            terms=tuple(estimate.name for estimate in self.estimates),
            covariance=self.covariance,
        )

    def value_bytes(self, name: str) -> int:
        """Return the value of an unknown."""
        return next(estimate.value_bytes for estimate in self.estimates if estimate.name == name)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Recompute kinds with an activation, in cell order, `none` last."""
        return tuple(estimate.name for estimate in self.estimates if estimate.name not in _MAY_BE_ZERO)


def fit_memory(dry_runs: DryRuns) -> MemoryFit:
    """Return the memory of every part, from the equations that the peaks give.

    With K recompute kinds, K + 3 middle stages or more are needed for a constant; with K + 2 it is taken as zero. No
    value is negative: where the peaks ask for that, the closest fit without is taken, and noted.

    Raises:
        InputError: too few peaks, or unknowns that the peaks leave open.
    """
    kinds = _kinds(dry_runs)
    every = [CONSTANT, PARAMETER, *kinds, HEAD, TAIL]
    enough = len(kinds) + 2
    unknowns, notes = every, []
    if dry_runs.num_middle == enough - 1:
        unknowns = every[1:]
        notes.append(
            _(
                "{stages} middle stages do not determine the constant, which is taken as 0; {enough} would",
                stages=dry_runs.num_middle,
                enough=enough,
            )
        )
    refusals.check_determined(dry_runs, every, unknowns, needed=enough - 1)
    free = solve(dry_runs.matrix(unknowns), dry_runs.measured)
    sizes = dict(zip(unknowns, _rounded(free), strict=True))
    kept, solution, refusal = unknowns, free, None
    if min(sizes.values()) < 0:
        kept = [unknowns[column] for column in not_negative(dry_runs.matrix(unknowns), dry_runs.measured)]
        solution = solve(dry_runs.matrix(kept), dry_runs.measured)
        notes += _notes_on_bounds(dry_runs, unknowns, free, kept, solution)
    values = dict(zip(kept, _rounded(solution), strict=True))
    far = float(np.abs(solution.residuals / dry_runs.measured).max()) > _MOST_OF_PEAK
    doubtful = [name for name in unknowns if sizes[name] < 0 and far]
    doubtful += [name for name in unknowns if name not in _MAY_BE_ZERO and not values.get(name)]
    if doubtful:
        worst = min(doubtful, key=lambda name: sizes[name])
        refusal = refusals.negative(dry_runs, unknowns, free, worst, _errors(free)[unknowns.index(worst)])
    suspects = refusals.suspects(dry_runs, solution)
    notes += (
        [_("{suspects}: check that peak, its offset and its recompute counts", suspects=suspects)] if suspects else []
    )
    is_bounded = kept is not unknowns
    errors = {} if is_bounded else dict(zip(unknowns, _errors(free), strict=True))
    weights = dict(zip(kept, solution.weights.tolist(), strict=True))
    return MemoryFit(
        dry_runs=dry_runs,
        estimates=tuple(
            MemoryEstimate(
                name=name,
                value_bytes=values.get(name, 0),
                free_bytes=sizes[name] if is_bounded and name in sizes else None,
                standard_error_bytes=round(errors[name]) if name in errors else None,
                weights=tuple(weights.get(name, [0.0] * len(dry_runs.peaks))),
            )
            for name in every
        ),
        residuals_bytes=tuple(int(residual) for residual in np.rint(solution.residuals)),
        constant_fitted=CONSTANT in kept,
        degrees_of_freedom=solution.degrees_of_freedom,
        peak_error_bytes=round(_peak_error(solution)),
        condition_number=solution.condition_number,
        covariance=_covariance([weights.get(name, [0.0] * len(dry_runs.peaks)) for name in every]),
        notes=tuple(notes),
        refusal=refusal,
    )


def _notes_on_bounds(
    dry_runs: DryRuns, unknowns: list[str], free: LeastSquares, kept: list[str], solution: LeastSquares
) -> list[str]:
    """Return what is held at zero, what the SAPP balancer makes of these peaks, and what that means."""
    notes = [
        _(
            "{name} would be {value} without a bound, and is held at 0",
            name=refusals.label(name),
            value=refusals.with_error(value, error),
        )
        for name, value, error in zip(unknowns, free.values, _errors(free), strict=True)
        if name not in kept
    ]
    by_name = dict(zip(unknowns, free.values, strict=True))
    if CONSTANT in by_name:
        head, tail = (megabytes(round(by_name[end] + by_name[CONSTANT])) for end in (HEAD, TAIL))
        notes.append(
            _(
                "the SAPP balancer takes the values without a bound, and counts the constant into head "
                "({head:,.1f} MB) and tail ({tail:,.1f} MB)",
                head=head,
                tail=tail,
            )
        )
    most = int(np.abs(solution.residuals).argmax())
    notes.append(
        _(
            "no memory values of zero or more give these peaks exactly: the closest are up to {most:,.1f} MB off, "
            "{share:.1f} % of the peak of {stage}",
            most=megabytes(round(abs(solution.residuals[most]))),
            share=100 * abs(solution.residuals[most]) / dry_runs.measured[most],
            stage=dry_runs.name(dry_runs.peaks[most]),
        )
    )
    return notes


def _kinds(dry_runs: DryRuns) -> tuple[str, ...]:
    """Return the kinds of layers on the measured stages, and `none`, with which every plan is compared."""
    stages = [(dry_runs.rounds[peak.round_index], peak.rank) for peak in dry_runs.peaks]
    return ordered_kinds(
        {NONE, *(kind for plan, rank in stages for kind in plan.recompute if plan.count(kind, 0, rank))}
    )


def _peak_error(solution: LeastSquares) -> float:
    """Return the standard error of one peak in bytes."""
    free = solution.degrees_of_freedom
    return max(math.sqrt(solution.squared_residuals / free) if free else 0.0, ROUNDING_BYTES)


def _covariance(weights: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    """Return the covariance of unknowns that are sums of independent peaks, each with a variance of one."""
    return tuple(map(tuple, (np.array(weights) @ np.array(weights).T).tolist()))


def _errors(solution: LeastSquares) -> list[float]:
    """Return the standard error of every unknown, in bytes."""
    errors: list[float] = (_peak_error(solution) * np.linalg.norm(solution.weights, axis=1)).tolist()
    return errors


def _rounded(solution: LeastSquares) -> list[int]:
    return [int(value) for value in np.rint(solution.values)]
