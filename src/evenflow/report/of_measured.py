"""A measured step as a timeline of a report."""

from dataclasses import replace

from evenflow.language import _
from evenflow.profiles.steps import MeasuredStep
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind, Shown


def shown_measured(step: MeasuredStep, *, name: str) -> Shown:
    """Return a step with the idle time of its ranks; the causes of that are not measured."""
    shown = shown_timeline(
        step.timeline, name=_("{name}, measured", name=name), kind=Kind.MEASURED, peak_bytes=step.peak_bytes
    )
    return replace(shown, notes=tuple(step.notes))
