"""Solves one configuration by itself, as the rows of a ranking are solved."""

from collections.abc import Callable
from dataclasses import replace

from evenflow.predict.training import Training
from evenflow.solve.memory.least_memory import least_memory
from evenflow.tune.axes import Axis, schedule_of, value_of
from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import ProgressCallback, search

_LEAST_SECONDS = 2.0
Solve = Callable[[Training], Candidate | None]


def only(question: TuningQuestion, training: Training) -> TuningQuestion:
    """Return the question whose space is one configuration."""
    fixed = {axis: value_of(training, axis) for axis in Axis}
    most = {axis: int(value) for axis, value in fixed.items() if isinstance(value, int)}
    return replace(question, fixed=fixed, most=most, schedules=(schedule_of(training),))


def solved(
    question: TuningQuestion, training: Training, *, time_limit_s: float, progress: ProgressCallback | None = None
) -> Candidate | None:
    """Return a configuration as a row of a ranking, without a step if it does not fit; None if it is not legal."""
    answer = search(only(question, training), rows=1, time_limit_s=time_limit_s, progress=progress)
    return answer.candidates[0] if answer.candidates else None


def needed_bytes(pricing: Pricing, training: Training, *, seconds: float = _LEAST_SECONDS) -> int:
    """Return the memory of a device, with which a configuration has a plan."""
    request = pricing.request(training, transfer_ns=pricing.message_ns(training))
    least = least_memory(
        pricing.problem(request, training), seconds=min(seconds, _LEAST_SECONDS), exact=False
    ).peak_bytes
    return pricing.question.device_bytes_for(least)
