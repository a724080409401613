"""Writers: one a framework, from a plan to the text that the framework's configuration takes."""

from collections.abc import Callable, Mapping

from evenflow.errors import InputError
from evenflow.export.mindformers import format_mindformers
from evenflow.model import Plan

WRITERS: Mapping[str, Callable[[Plan], str]] = {"mindformers": format_mindformers}
"""By the name of the framework."""


def write_plan(plan: Plan, framework: str) -> str:
    """`plan` as text for `framework`.

    Raises:
        InputError: an unknown framework, or a plan that it cannot express.
    """
    if framework not in WRITERS:
        raise InputError(value=framework, rule=f"a framework is one of {', '.join(WRITERS)}", place="framework")
    return WRITERS[framework](plan)


__all__ = ["WRITERS", "write_plan"]
