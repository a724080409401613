"""The memory of every part of a model from the peaks of dry runs. [SAPP guide, 内存分解原理]

The unknowns are constant, parameter, an activation for no recomputation and for each kind that was run, head and tail;
`equations` says how they make up a peak. All are found together by least squares. Head and tail stand in the equation
of one stage each, so they are what the peak of that stage has beyond what the middle stages say, and the middle stages
alone decide the rest. Every peak counts the same, because a log rounds each to a whole megabyte, large or small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.language import _
from evenflow.model import NONE, ordered_kinds
from evenflow.profiles.memory import refusals
from evenflow.profiles.memory.equations import CONSTANT, HEAD, PARAMETER, TAIL
from evenflow.profiles.memory.least_squares import LeastSquares, solve
from evenflow.profiles.memory.peaks import DryRuns
from evenflow.units import MEGABYTE

ROUNDING_BYTES = MEGABYTE / math.sqrt(12)
"""Standard deviation of a peak that a log rounds to a whole megabyte: the least error that is assumed."""

_MAY_BE_ZERO = (CONSTANT, PARAMETER, HEAD, TAIL)
_MOST_STANDARD_ERRORS = 2.0
_MOST_OF_HIGHEST_PEAK = 0.01
"""A negative result within both limits is taken as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of one unknown."""

    name: str
    """`constant`, `parameter`, `head`, `tail`, or the recompute kind whose activation it is."""
    value_bytes: int
    standard_error_bytes: int | None
    """None for a constant that was not fitted."""
    weights: tuple[float, ...]
    """How much the value moves when a peak moves by one, by peak; all zero for a value that was taken as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """The memory of every part, and how sure it is."""

    dry_runs: DryRuns
    estimates: tuple[Estimate, ...]
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
    notes: tuple[str, ...]
    """Sentences that a reader should know."""

    def value_bytes(self, name: str) -> int:
        """Return the value of an unknown."""
        return next(estimate.value_bytes for estimate in self.estimates if estimate.name == name)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Recompute kinds with an activation, in cell order, `none` last."""
        return tuple(estimate.name for estimate in self.estimates if estimate.name not in _MAY_BE_ZERO)


def fit_memory(dry_runs: DryRuns) -> MemoryFit:
    """Return the memory of every part, from the equations that the peaks give.

    With K recompute kinds, K + 3 middle stages or more are needed for a constant; with K + 2 it is taken as zero.
    A constant, parameter, head or tail that is negative but within its error is taken as zero. Both are noted.

    Raises:
        InputError: too few peaks, unknowns that the peaks leave open, or one that comes out negative.
    """
    kinds = _kinds(dry_runs)
    every = [CONSTANT, PARAMETER, *kinds, HEAD, TAIL]
    enough = len(kinds) + 2
    unknowns, notes = every, []
    if dry_runs.num_middle == enough - 1:
        unknowns = every[1:]
        notes.append(
            _(
                "{stages} middle stages leave out the constant, which is taken as 0; with {enough} it is fitted too",
                stages=dry_runs.num_middle,
                enough=enough,
            )
        )
    refusals.check_determined(dry_runs, every, unknowns, needed=enough - 1)
    unknowns, solution, errors, zeros = _not_negative(dry_runs, unknowns)
    notes += [_("{zero}, so it is taken as 0", zero=zero) for zero in zeros]
    suspects = refusals.suspects(dry_runs, solution)
    notes += (
        [_("{suspects}: check that peak, its offset and its recompute counts", suspects=suspects)] if suspects else []
    )
    values = dict(zip(unknowns, _rounded(solution), strict=True))
    weights = dict(zip(unknowns, solution.weights.tolist(), strict=True))
    return MemoryFit(
        dry_runs=dry_runs,
        estimates=tuple(
            Estimate(
                name=name,
                value_bytes=values.get(name, 0),
                standard_error_bytes=round(errors[name]) if name in errors else None,
                weights=tuple(weights.get(name, [0.0] * len(dry_runs.peaks))),
            )
            for name in every
        ),
        residuals_bytes=tuple(int(residual) for residual in np.rint(solution.residuals)),
        constant_fitted=CONSTANT in unknowns,
        degrees_of_freedom=solution.degrees_of_freedom,
        peak_error_bytes=round(_peak_error(solution)),
        condition_number=solution.condition_number,
        notes=tuple(notes),
    )


def _not_negative(
    dry_runs: DryRuns, unknowns: list[str]
) -> tuple[list[str], LeastSquares, Mapping[str, float], list[str]]:
    """Solve, and solve again without an unknown that is negative within its error, until none is.

    Returns the unknowns that are left, their solution, the standard error of every unknown, and what was left out.
    """
    measured = np.array([peak.peak_bytes for peak in dry_runs.peaks], dtype=np.float64)
    errors: dict[str, float] = {}
    zeros: list[str] = []
    while True:
        solution = solve(dry_runs.matrix(unknowns), measured)
        errors |= zip(unknowns, _peak_error(solution) * np.linalg.norm(solution.weights, axis=1), strict=True)
        values = dict(zip(unknowns, _rounded(solution), strict=True))
        bad = [name for name in unknowns if values[name] < 0 or (values[name] == 0 and name not in _MAY_BE_ZERO)]
        if not bad:
            return unknowns, solution, errors, zeros
        name = min(bad, key=lambda name: values[name] / errors[name])
        slight = min(_MOST_STANDARD_ERRORS * errors[name], _MOST_OF_HIGHEST_PEAK * float(measured.max()))
        if name not in _MAY_BE_ZERO or -values[name] > slight:
            raise refusals.negative(dry_runs, unknowns, solution, name, errors[name])
        zeros.append(
            _(
                "{name} comes out at {value}",
                name=refusals.label(name),
                value=refusals.with_error(values[name], errors[name]),
            )
        )
        unknowns = [other for other in unknowns if other != name]


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


def _rounded(solution: LeastSquares) -> list[int]:
    return [int(value) for value in np.rint(solution.values)]
