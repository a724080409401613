"""The steps of the rule of thumb, and the optima beside it."""

from collections.abc import Mapping, Sequence

from evenflow.baselines.quick_tune import SCHEDULE, TuningStep
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.model import FULL, Sizes
from evenflow.profiles.plan_fields import simulation_fields
from evenflow.solve import Outcome
from evenflow.units import megabytes, milliseconds


def quick_tune_fields(
    steps: Sequence[TuningStep], outcomes: Mapping[str, Outcome], sizes: Sizes, memory_limit_bytes: int | None
) -> dict[str, object]:
    """Return every step, the plan of the last one, and each optimum under its name."""
    return {
        "steps": [_step(step, memory_limit_bytes) for step in steps],
        "rule_of_thumb": simulation_fields(steps[-1].simulation, memory_limit_bytes),
        **{name: outcome_fields(outcome, sizes, schedule=SCHEDULE) for name, outcome in outcomes.items()},
    }


def _step(step: TuningStep, memory_limit_bytes: int | None) -> dict[str, object]:
    simulation = step.simulation
    plan = simulation.plan
    return {
        "change": step.change,
        "layers": plan.layers,
        "recompute_full": [[plan.count(FULL, 0, rank) for rank in range(plan.num_ranks)]],
        "stage_time_ms": [milliseconds(time) for time in step.stage_ns],
        "peak_memory_mb": [megabytes(peak) for peak in simulation.peak_memory_bytes],
        "makespan_ms": milliseconds(simulation.makespan_ns),
        "fits": simulation.fits(memory_limit_bytes),
    }
