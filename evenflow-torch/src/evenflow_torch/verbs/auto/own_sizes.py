"""What the file of ``--evaluate`` says of a step: the command may leave it out, or must say the same."""

from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.own_plan_file import OwnPlan

_OPTIONS = {
    "global_batch": "--global-batch",
    "microbatch": "--microbatch",
    "microbatches": "--microbatches",
    "sequence": "--seq",
    "schedule": "--schedule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSizes:
    """The sizes and the schedule of the step that is planned."""

    global_batch: int | None
    microbatch: int | None
    microbatches: int | None
    sequence: int
    schedule: str

    @property
    def as_options(self) -> str:
        """The sizes as options of a command."""
        said = ((option, getattr(self, name)) for name, option in _OPTIONS.items())
        return " ".join(f"{option} {value}" for option, value in said if value is not None)


def asked_sizes(own: OwnPlan | None, **size_options: Any) -> StepSizes:
    """Return the sizes that the running command's options state, or where they are silent the user's own plan.

    Raises:
        InputError: both say something, and not the same.
    """
    source = click.get_current_context().get_parameter_source
    sizes = dict(size_options)
    for name, option in _OPTIONS.items():
        value = None if own is None else getattr(own, name)
        if own is None or value is None:
            continue
        if source(name) is not ParameterSource.DEFAULT and size_options[name] != value:
            raise InputError(
                value=size_options[name],
                rule=_("must be {value}, as {file} says", value=value, file=own.file),
                place=option,
                remedy=_("leave one of the two out"),
            )
        sizes[name] = value
    return StepSizes(**sizes)


def search_note(sizes: StepSizes) -> str:
    """Return a note on the command that finds the shortest plan, to compare the priced one with."""
    return _(
        "the same command without --evaluate tells how much shorter a plan can be; it needs {options}",
        options=sizes.as_options,
    )
