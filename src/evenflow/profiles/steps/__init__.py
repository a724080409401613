"""Measured steps, action by action: of Primus, of the form in the documentation, and from profilers' timelines."""

from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.reading import read_measured_step
from evenflow.profiles.steps.step_file import is_step_file, step_of_file

__all__ = ["MeasuredStep", "is_step_file", "read_measured_step", "step_of_file"]
