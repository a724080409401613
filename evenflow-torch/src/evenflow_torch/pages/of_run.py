"""A run on torch.distributed as timelines of a report: the prediction, and the measured step."""

from dataclasses import replace

from evenflow.language import _
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind, Shown
from evenflow.report.stage_words import stage_words
from evenflow.simulate import idle_gaps, idle_times, runs_by_cause
from evenflow_torch.run.measure.comparison import Comparison
from evenflow_torch.run.values.run_job import RunJob


def shown_run(job: RunJob, comparison: Comparison, *, plan: str | None = None) -> tuple[Shown, Shown]:
    """Return the predicted and the measured timeline of a run; `plan` is the plan file that was run."""
    predicted, costs = comparison.predicted, comparison.costs
    stage_layers = tuple(stage_words(job.plan, predicted.schedule, None))
    runs = runs_by_cause(predicted, comparison.durations, costs.recompute_ns, comparison.communication)
    idle = idle_times(runs)
    plan_shown = shown_timeline(
        predicted,
        name=_("predicted"),
        kind=Kind.PLAN,
        limit_bytes=job.memory_limit_bytes,
        costs=costs,
        peak_bytes=comparison.predicted_peak_bytes,
    )
    step_shown = shown_timeline(
        comparison.measured,
        name=_("measured"),
        kind=Kind.MEASURED,
        limit_bytes=job.memory_limit_bytes,
        peak_bytes=comparison.measured_peak_bytes,
    )
    return (
        replace(
            plan_shown,
            causes=idle_gaps(runs, idle),
            idle=idle,
            stage_layers=stage_layers,
            notes=(_("The order of the plan with times that were measured on this machine before the training."),),
            plan=plan,
        ),
        replace(
            step_shown,
            stage_layers=stage_layers,
            notes=(_("The step of median length, of {count}.", count=len(comparison.step_ns)),),
        ),
    )
