"""Measured steps, action by action: of Primus, of the form in the documentation, and from profilers' timelines."""

from evenflow.profiles.steps.action_names import PATTERN_OPTION, naming_of_pattern, pattern_without_timelines
from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.observed_step import ObservedStep
from evenflow.profiles.steps.reading import read_measured_step, read_step
from evenflow.profiles.steps.step_file import is_step_file, step_of_file

__all__ = [
    "PATTERN_OPTION",
    "MeasuredStep",
    "ObservedStep",
    "is_step_file",
    "naming_of_pattern",
    "pattern_without_timelines",
    "read_measured_step",
    "read_step",
    "step_of_file",
]
