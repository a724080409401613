"""The one line that names a shorter neighbour of a plan."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.solve import Neighbours, Outcome, ScheduleCandidate
from evenflow.targets.frameworks.mindformers.target import TARGET as MINDFORMERS
from evenflow.units import megabytes, milliseconds

_LEAST_GAIN = 0.001
"""Least share of the step that a neighbour saves to be named."""
_LEAST_GAIN_OF_OPTION = 0.01
"""The same of one that a user's own option rules out: people have reasons for options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherOption:
    """A shorter plan that one option more, or another one, allows."""

    options: str
    """What to add to the command line, or to change there."""
    outcome: Outcome


def other_option_line(other: OtherOption, outcome: Outcome) -> str:
    """Return how much the plan of another option saves; empty where that is little."""
    other_ns, step_ns = other.outcome.makespan_ns, outcome.makespan_ns
    if other_ns is None or step_ns is None or other_ns > (1 - _LEAST_GAIN_OF_OPTION) * step_ns:
        return ""
    return neighbour_line(other.outcome, outcome, options=other.options)


def shorter_neighbour(neighbours: Neighbours, outcome: Outcome) -> ScheduleCandidate | None:
    """Return the best neighbour if its plan is shorter; one that the framework refuses only beside a plan like that."""
    plan, step_ns = outcome.plan, outcome.makespan_ns
    if plan is None or step_ns is None:
        return None
    for candidate in neighbours.candidates:
        neighbour_plan = None if candidate.outcome is None else candidate.outcome.plan
        if (
            neighbour_plan is None
            or candidate.makespan_ns is None
            or candidate.makespan_ns > (1 - _LEAST_GAIN) * step_ns
        ):
            return None
        if MINDFORMERS.can_run(neighbour_plan) or not MINDFORMERS.can_run(plan):
            return candidate
    return None


def neighbour_line(shorter: Outcome, outcome: Outcome, *, options: str) -> str:
    """Return how much the plan of `shorter` saves; `options` ask for it."""
    assert shorter.simulation is not None
    assert outcome.simulation is not None
    step_ns, plan = shorter.simulation.makespan_ns, outcome.simulation.plan
    line = _(
        "shorter: {words} takes {step} ms ({percent:.1f} % less)",
        words=options,
        step=f"{milliseconds(step_ns):,.1f}",
        percent=100 * (1 - step_ns / outcome.simulation.makespan_ns),
    )
    if plan.encodes_apart:
        line = _("{line} for the decoder alone", line=line)
    if outcome.memory_limit_bytes is not None:
        limit = f"{megabytes(outcome.memory_limit_bytes):,.0f} MB"
        line = _("{line} and fits {limit}", line=line, limit=limit)
    if shorter.simulation.plan.num_chunks > plan.num_chunks and outcome.simulation.communication is None:
        line = _("{line}; messages cost nothing here, and more chunks send more of them", line=line)
    return line
