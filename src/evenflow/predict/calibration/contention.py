"""How much slower a device computes beside exchanges of tokens: what runs that hide these say of it.

What such a run says best is said beside its twin, a run of the same configuration that hides nothing: most of what a
prediction has wrong, it has wrong alike in both. The value is shrunk towards what was known, since few runs say little.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from evenflow.cluster.reached import Reached
from evenflow.language import _
from evenflow.predict.calibration.fitted import NotFitted, ParameterEstimate
from evenflow.predict.calibration.least_squares import USUAL_SCALE, Array
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.calibration.tunable import PAIR_SLOWDOWN, Tunable
from evenflow.predict.training import Training
from evenflow.schedule import FAMILIES

_REPEATED = 0.03
"""Scatter of the ratio of two runs that were measured one after the other."""
_FELT = 0.002
"""A run whose step changes by less with the logarithm of the slowdown says nothing of it."""
_LONGEST = 3.0
"""Most that the logarithm changes."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_SETTLED = 1e-3
_STEP = 0.05
"""Of a numeric derivative."""
_MOVES = 21
"""Changes of the logarithm for which steps are predicted; between them they are interpolated."""

ReachedOf = Callable[[Measurement], Reached]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A run that hides exchanges: by how many of its scatters the prediction is too long, along the logarithm."""

    run: Measurement
    moves: Array
    residuals: Array
    scatter: float
    log_of_twins: float
    """Logarithm of predicted over measured of its twins, of which residuals are free; zero without any."""

    def error(self, by: float) -> float:
        """Return the error of the step itself, predicted over measured less one."""
        return math.expm1(self.at(by) * self.scatter + self.log_of_twins)

    def at(self, by: float) -> float:
        """Return the residual where the logarithm changes by so much."""
        return float(np.interp(by, self.moves, self.residuals))

    @property
    def slope(self) -> float:
        """By how much the residual changes with the logarithm, at the value before."""
        return (self.at(_STEP) - self.at(-_STEP)) / (2 * _STEP)


def hides_exchanges(training: Training) -> bool:
    """Return whether a training hides exchanges of tokens under computation, by its schedule or as it says."""
    pairs = training.schedule is not None and FAMILIES[training.schedule].has_pairs
    return training.model.experts is not None and (pairs or training.software.overlaps_experts)


def fitted_slowdown(
    measurements: Sequence[Measurement], reached_of: ReachedOf, *, is_drawn: bool = True
) -> ParameterEstimate | NotFitted:
    """Return the slowdown that runs with a step say; `reached_of` is what else a run's accelerator reaches.

    It is drawn towards the value before, and not fitted where runs that are left out, in turn, are then predicted no
    better than with that, nor where their steps themselves are predicted worse: twins may have wrong what they hide.
    Without `is_drawn` it is what the runs alone say.
    """
    tunable = PAIR_SLOWDOWN if is_drawn else replace(PAIR_SLOWDOWN, width=math.inf)
    known = tunable.value(reached_of(measurements[0])) if measurements else tunable.value(Reached())
    evidence = [each for each in _evidence(measurements, reached_of) if abs(each.slope) * each.scatter >= _FELT]
    if not evidence:
        return NotFitted(name=tunable.name, value=known, reason=tunable.absent())
    by = _most_likely(evidence, tunable)
    reason = _reason_against(evidence, tunable, by) if is_drawn else ""
    if reason:
        return NotFitted(name=tunable.name, value=known, reason=reason)
    after = tunable.moved(reached_of(evidence[0].run), by)
    error = 1 / math.sqrt(sum(each.slope**2 for each in evidence))
    return ParameterEstimate(
        name=tunable.name, before=known, after=after, logarithm=by, standard_error=error * tunable.unit(after),
        runs=len(evidence), is_at_limit=after == tunable.most,
    )  # fmt: skip


def _reason_against(evidence: Sequence[_Evidence], tunable: Tunable, by: float) -> str:
    """Return why the value before is kept; empty where it is not."""
    if len(evidence) > 1 and not _gains(evidence, tunable):
        return _("with it, runs that are left out of a fit are predicted no better than before")
    before, after = (fmean(abs(each.error(moved)) for each in evidence) for moved in (0.0, by))
    return _("with it, the steps of these runs are predicted worse than before") if after > before else ""


def _evidence(measurements: Sequence[Measurement], reached_of: ReachedOf) -> list[_Evidence]:
    timed = [run for run in measurements if run.step_ns is not None]
    without: dict[object, list[Measurement]] = {}
    for run in timed:
        if not hides_exchanges(run.training):
            without.setdefault(without_hiding(run), []).append(run)
    hiding = [run for run in timed if hides_exchanges(run.training)]
    return [_beside(run, without.get(without_hiding(run), ()), reached_of) for run in hiding]


def _beside(run: Measurement, twins: Sequence[Measurement], reached_of: ReachedOf) -> _Evidence:
    tunable, reached = PAIR_SLOWDOWN, reached_of(run)
    logs = [math.log(twin.predicted(Quantity.TIME, reached_of(twin)) / (twin.step_ns or 1.0)) for twin in twins]
    log_of_twins, scatter = (fmean(logs), _REPEATED) if logs else (0.0, USUAL_SCALE)
    down, up = tunable.room(reached)
    moves = np.unique(np.append(np.linspace(max(-_LONGEST, down), min(_LONGEST, up), _MOVES), (-_STEP, 0.0, _STEP)))
    predicted = [
        run.predicted(Quantity.TIME, reached.changed({tunable.name: tunable.moved(reached, float(by))})) for by in moves
    ]
    residuals = (np.log(np.array(predicted) / (run.step_ns or 1.0)) - log_of_twins) / scatter
    return _Evidence(run, moves, residuals, scatter, log_of_twins)


def without_hiding(run: Measurement) -> object:
    """Return what a run has in common with its twins, of the same source: all but what hides exchanges."""
    training = run.training
    schedule = training.schedule
    if schedule is not None and FAMILIES[schedule].has_pairs:
        schedule = None
    software = replace(training.software, overlaps_experts=False)
    return replace(training, schedule=schedule, software=software), run.topology, run.source


def _most_likely(evidence: Sequence[_Evidence], tunable: Tunable) -> float:
    """Return by how much the logarithm changes: where runs and prior knowledge agree best, by golden section.

    Residuals count by the pseudo-Huber function, so that a wrong run does not decide.
    """

    def cost(by: float) -> float:
        rows = np.array([each.at(by) for each in evidence])
        return float((2 * (np.sqrt(1 + rows**2) - 1)).sum() + (by / tunable.width) ** 2)

    low, high = max(each.moves[0] for each in evidence), min(each.moves[-1] for each in evidence)
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    costs = [cost(by) for by in inner]
    while high - low > _SETTLED:
        if costs[0] <= costs[1]:
            high, inner[1], costs[1] = inner[1], inner[0], costs[0]
            inner[0] = high - _GOLDEN * (high - low)
            costs[0] = cost(inner[0])
        else:
            low, inner[0], costs[0] = inner[0], inner[1], costs[1]
            inner[1] = low + _GOLDEN * (high - low)
            costs[1] = cost(inner[1])
    return float((low + high) / 2)


def _gains(evidence: Sequence[_Evidence], tunable: Tunable) -> bool:
    """Whether runs that are left out, in turn, are predicted better by a fit to the others."""
    before = fmean(abs(each.at(0.0)) for each in evidence)
    after = fmean(
        abs(each.at(_most_likely([*evidence[:place], *evidence[place + 1 :]], tunable)))
        for place, each in enumerate(evidence)
    )
    return after < before
