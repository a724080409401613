"""Measured steps, action by action: of Primus, of the form in the documentation, and from profilers' timelines."""

from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.reading import read_measured_step

__all__ = ["MeasuredStep", "read_measured_step"]
