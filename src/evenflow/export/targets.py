"""The frameworks that plans are written for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.export.mindformers import SCHEDULES, environment, refusal, without_environment
from evenflow.export.mindformers_block import format_mindformers
from evenflow.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A framework and how a plan is written for it."""

    title: str
    """Name for people, such as ``MindFormers``."""
    schedules: tuple[str, ...]
    """Schedule families that the framework runs in the same order."""
    write: Callable[..., str]
    """Return the fragment of a plan to paste into the framework's configuration; raises InputError for a plan that it
    cannot express. The keyword `without_environment` says what runs where `environment` is not set.
    """
    refusal: Callable[[Plan], InputError | None]
    """Return why the framework refuses a plan that it can express when the training starts; None where it does not."""
    environment: Callable[[Plan], Mapping[str, str]]
    """Return the environment variables that a plan needs beside its fragment."""
    without_environment: Callable[[Plan], Plan]
    """Return what the framework runs where these are not set."""

    def can_run(self, plan: Plan) -> bool:
        """Return whether the framework can run `plan`."""
        try:
            self.write(plan)
        except InputError:
            return False
        return self.refusal(plan) is None


MINDFORMERS = Target(
    title="MindFormers",
    schedules=SCHEDULES,
    write=format_mindformers,
    refusal=refusal,
    environment=environment,
    without_environment=without_environment,
)
