"""A two-level plan as a timeline of a report: its pipeline, with what the devices of every stage do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.report.of_simulation import shown_simulation
from evenflow.report.shown import Shown

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.auto.planner import AutoPlan


def shown_auto(result: "AutoPlan", *, notes: Sequence[str], plan: str) -> Shown:
    """Return the pipeline of a plan that was found; `plan` is its plan file."""
    from evenflow_torch.auto.stage_groups import StageGroup

    groups = [StageGroup(stages=(stage,)) for stage in result.stages]
    return shown_simulation(
        result.simulation,
        name=result.row.name,
        memory_limit_bytes=result.cluster.memory_bytes,
        notes=notes,
        stage_layers=[f"{group.extent}: {group.how}" for group in groups],
        plan=plan,
    )
