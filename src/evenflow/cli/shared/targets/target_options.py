"""Options that name a framework, which complete in the shell and are answered with the nearest name."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from evenflow.cli.shared.numbers import Number
from evenflow.ranges import SECONDS
from evenflow.targets import registry
from evenflow.targets.target import Target


class TargetName(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The name of a target."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Return the target; raise `InputError`, with the nearest name, for a name that none has."""
        if isinstance(value, Target):
            return value
        return registry.target_named(value, place=param.opts[0] if param is not None else "--to")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`, with the names for people."""
        found = registry.all_targets().values()
        return [CompletionItem(each.name, help=each.title) for each in found if each.name.startswith(incomplete)]


def target_option(option: str, *names: str, **keywords: Any) -> Callable[[Any], Any]:
    """Return an option that names a target."""
    return click.option(option, *names, type=TargetName(), metavar="NAME", **keywords)


FITTING_TIME = click.option(
    "--time-limit",
    type=Number(SECONDS),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop looking for the nearest plan after this time, where the framework cannot run this one.",
)
MODEL_OF_PLAN = click.option(
    "--layers",
    "layer_file",
    metavar="LAYERS.json",
    help="Layer file of the model.  [default: the model in the plan file]",
)
OVER_LIMIT = click.option("--over-limit", is_flag=True, help="Also write a plan that needs more memory than the limit.")
VERSION_OF = click.option(
    "--version-of", "asked_version", metavar="VERSION", help="Version of the framework.  [default: the newest known]"
)
MEMORY_OF_PLAN = click.option(
    "--memory", metavar="SIZE", help="Memory limit of each rank, such as 56GB.  [default: that of the plan]"
)
