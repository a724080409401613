"""Options that name a framework, which complete in the shell and are answered with the nearest name."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from evenflow.asking import asked, asked_as, optional
from evenflow.cli.shared.options import ALLOWS_EMPTY, MEMORY_TEXT
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.questions import TIME_LIMIT
from evenflow.targets import registry
from evenflow.targets.target import Target


class TargetName(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of an option that names a target."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Return the target; raise `InputError`, with the nearest name, for a name that none has."""
        if isinstance(value, Target):
            return value
        return registry.target_named(value, place=param.opts[0] if param is not None else "--to")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`, with the names for people."""
        targets = registry.all_targets().values()
        return [
            CompletionItem(target.name, help=target.title) for target in targets if target.name.startswith(incomplete)
        ]


VERSION = asked(option="--version-of", metavar="VERSION", help="Version of the framework.  [default: the newest known]")


def version_of(target: Target | None, asked_version: str | None) -> str:
    """Return the version of the framework that is asked for; empty without a framework.

    Raises InputError for a version without a framework, and for one that the framework has not.
    """
    if target is not None:
        return target.version(asked_version)
    if asked_version is not None:
        rule = _("must come with --target, the framework whose version it is")
        raise InputError(value=asked_version, rule=rule, place="--version-of", remedy=_("add --target"))
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingOptions:
    """How a plan file is fitted to a framework: an option for each field."""

    layer_file: str | None = optional(
        "--layers", metavar="LAYERS.json", help="Layer file of the model.  [default: the model in the plan file]"
    )
    memory: str | None = field(
        default=None,
        metadata=asked_as(MEMORY_TEXT, help="Memory limit of each rank, such as 56GB.  [default: that of the plan]"),
    )
    over_limit: bool = optional(
        "--over-limit", default=False, help="Also write a plan that needs more memory than the limit."
    )
    allow_empty: bool | None = field(
        default=None,
        metadata=asked_as(
            ALLOWS_EMPTY,
            help="Whether cells of the nearest plan may hold no layer.  [default: where they can be run]",
        ),
    )
    time_limit: float = field(
        default=20.0,
        metadata=asked_as(
            TIME_LIMIT,
            help="Stop looking for the nearest plan after this time, where the framework cannot run this one.",
        ),
    )

    def inputs(self, plan_file: str) -> dict[str, Path | None]:
        """Return the files that are read, as messages name them."""
        return {
            _("the plan file"): Path(plan_file),
            _("the layer file"): None if self.layer_file is None else Path(self.layer_file),
        }
