"""JSON of runs to calibrate on."""

from collections.abc import Sequence
from dataclasses import fields

from evenflow.predict.calibration.tunable import Tunable
from evenflow.profiles.measured.planned_runs import PlannedRun
from evenflow.units import milliseconds


def planned_runs_fields(
    runs: Sequence[PlannedRun], tunables: Sequence[Tunable], *, candidates: int
) -> dict[str, object]:
    """Return the runs by the columns of a CSV file, and the standard errors of all logarithms before and after each."""
    return {
        "candidates": candidates,
        "runs": [
            {
                **{
                    field.name: value
                    for field in fields(planned.run)
                    if field.name != "assumed" and (value := getattr(planned.run, field.name)) is not None
                },
                "step_ms": milliseconds(round(planned.prediction.step_ns)),
                "parameters": [
                    {
                        "name": tunable.name,
                        "error_before": float(planned.chosen.before[place]),
                        "error_after": float(planned.chosen.after[place]),
                    }
                    for place, tunable in enumerate(tunables)
                ],
            }
            for planned in runs
        ],
    }
