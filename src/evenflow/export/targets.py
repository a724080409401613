"""The frameworks that plans are written for."""

from collections.abc import Callable
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.export.mindformers import SCHEDULES, format_mindformers
from evenflow.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A framework and how a plan is written for it."""

    title: str
    """Name for people, such as ``MindFormers``."""
    schedules: tuple[str, ...]
    """Schedule families that the framework runs in the same order."""
    write: Callable[[Plan], str]
    """Return the lines to paste into the framework's configuration; raises InputError for a plan it cannot express."""

    def can_express(self, plan: Plan) -> bool:
        """Return whether the framework can run `plan`."""
        try:
            self.write(plan)
        except InputError:
            return False
        return True


MINDFORMERS = Target(title="MindFormers", schedules=SCHEDULES, write=format_mindformers)
