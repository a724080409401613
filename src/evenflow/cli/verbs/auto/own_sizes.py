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
    """The step that is asked for."""

    global_batch: int | None
    microbatch: int | None
    microbatches: int | None
    sequence: int
    schedule: str

    @property
    def as_options(self) -> str:
        """The same as options of a command."""
        said = ((option, getattr(self, name)) for name, option in _OPTIONS.items())
        return " ".join(f"{option} {value}" for option, value in said if value is not None)


def asked_sizes(own: OwnPlan | None, **asked: Any) -> StepSizes:
    """Return what options of the command in progress ask for, and the plan of a person where they are silent.

    Raises:
        InputError: both say something, and not the same.
    """
    source = click.get_current_context().get_parameter_source
    sizes = dict(asked)
    for name, option in _OPTIONS.items():
        value = None if own is None else getattr(own, name)
        if own is None or value is None:
            continue
        if source(name) is not ParameterSource.DEFAULT and asked[name] != value:
            raise InputError(
                value=asked[name],
                rule=_("must be {value}, as {file} says", value=value, file=own.file),
                place=option,
                remedy=_("leave one of the two out"),
            )
        sizes[name] = value
    return StepSizes(**sizes)


def search_note(sizes: StepSizes) -> str:
    """Return how the shortest plan is found with which a priced one compares."""
    return _(
        "the same command without --evaluate tells how much shorter a plan can be; it needs {options}",
        options=sizes.as_options,
    )
