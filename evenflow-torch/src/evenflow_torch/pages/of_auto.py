"""A two-level plan in a report: its pipeline, with what the devices of every stage do, and what else was considered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evenflow.draw.configurations_picture import ConfigurationDot, Configurations
from evenflow.language import _
from evenflow.report.of_simulation import shown_simulation
from evenflow.report.shown import Shown
from evenflow.report.what_if import costs_of_stages

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.auto.planner import AutoPlan


def shown_auto(result: "AutoPlan", *, notes: Sequence[str], plan: str) -> Shown:
    """Return the pipeline of a plan that was found; `plan` is its plan file."""
    from evenflow_torch.auto.stage_groups import StageGroup

    groups = [StageGroup(stages=(stage,)) for stage in result.stages]
    shown = shown_simulation(
        result.simulation,
        name=result.row.name,
        memory_limit_bytes=result.cluster.memory_bytes,
        notes=notes,
        stage_layers=[f"{group.extent}: {group.how}" for group in groups],
        plan=plan,
    )
    return replace(shown, what_if=costs_of_stages())


def auto_configurations(result: "AutoPlan") -> Configurations | None:
    """Return the plain plans that fit, which were priced alike, with the plan found; None where nothing else was."""
    dots = tuple(
        ConfigurationDot(
            step_ns=grid.plan.timeline.makespan_ns,
            memory_bytes=grid.memory_bytes,
            degree=grid.num_stages,
            words=grid.name,
        )
        for grid in result.search.grids
        if grid.plan is not None and grid.memory_bytes is not None
    )
    if result.is_own or not dots:
        return None
    simulation = result.simulation
    return Configurations(
        dots=dots,
        degree_name=_("stages"),
        chosen=ConfigurationDot(
            step_ns=simulation.makespan_ns,
            memory_bytes=max(simulation.peak_memory_bytes),
            degree=len(result.stages),
            words=result.row.name,
        ),
        bound_ns=result.lower_bound_ns or 0,
        limit_bytes=result.cluster.memory_bytes,
        note=_(
            "A dot for each of the {fitting} plans as people write them that fit, of {count}: equal submeshes, layers "
            "dealt evenly, one sharding. The bound is that of the answer.",
            fitting=len(dots),
            count=len(result.search.grids),
        ),
    )
