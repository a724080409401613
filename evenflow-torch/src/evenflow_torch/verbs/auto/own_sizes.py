"""What the file of ``--evaluate`` says of a step: the command may leave it out, or must say the same."""

from dataclasses import fields, replace

import click
from click.core import ParameterSource

from evenflow.asking import question_of
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.own_plan_file import OwnPlan
from evenflow_torch.requests import AutoRequest

_SIZES = {
    "global_batch": "global_batch",
    "microbatch": "microbatch",
    "num_microbatches": "microbatches",
    "sequence": "sequence",
    "schedule": "schedule",
}
"""What a plan calls the sizes and the schedule of a step, by their fields in a request."""


def with_sizes(request: AutoRequest, own: OwnPlan) -> AutoRequest:
    """Return the request with what the user's own plan says of the step, where the running command is silent.

    Raises:
        InputError: both say something, and not the same.
    """
    source = click.get_current_context().get_parameter_source
    for name, key in _SIZES.items():
        value, given = getattr(own, key), getattr(request, name)
        if value is None:
            continue
        if source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP) and given != value:
            raise InputError(
                value=given,
                rule=_("must be {value}, as {file} says", value=value, file=own.file),
                place=_option(name),
                remedy=_("leave one of the two out"),
            )
        request = replace(request, **{name: value})
    return request


def search_note(request: AutoRequest) -> str:
    """Return a note on the command that finds the shortest plan, to compare the priced one with."""
    said = ((_option(name), getattr(request, name)) for name in _SIZES)
    return _(
        "the same command without --evaluate tells how much shorter a plan can be; it needs {options}",
        options=" ".join(f"{option} {value}" for option, value in said if value is not None),
    )


def _option(name: str) -> str:
    (question,) = (question_of(field) for field in fields(AutoRequest) if field.name == name)
    assert question is not None
    return question.option
