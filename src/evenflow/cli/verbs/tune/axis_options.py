"""``--fix`` and ``--max-…``: what the user has decided of the degrees."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evenflow.cli.shared.numbers import Number, as_number
from evenflow.cli.shared.training.sections import of_degrees
from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.schedule import family_name
from evenflow.tune.axes import Axis, Value
from evenflow.tune.limits import LIMITED, RANGES

_FIX = "--fix"
_OPTIONS = (
    of_degrees(
        _FIX,
        multiple=True,
        metavar="NAME=VALUE,…",
        help="What every configuration must have, such as tensor=8,pipeline=4; also "
        f"{', '.join(axis for axis in Axis if axis not in ('tensor', 'pipeline'))}. May be given several times.",
    ),
    *(
        of_degrees(
            f"--max-{axis}",
            type=Number(RANGES[axis]),
            metavar="N",
            help=text,
        )
        for axis, text in zip(
            LIMITED,
            (
                "Largest tensor-parallel degree.  [default: the devices that fast links connect]",
                "Largest context-parallel degree.  [default: 1,024 tokens are left on a device]",
                "Largest expert-parallel degree.  [default: the number of experts]",
                "Most pipeline ranks.  [default: one for each layer]",
                "Most model chunks of a rank.  [default: 8]",
                "Most sequences of a microbatch.  [default: 16]",
            ),
            strict=True,
        )
    ),
)


def axis_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets their values by axis as `fixed` and `most`."""

    @functools.wraps(command)
    def with_axes(*, fix: tuple[str, ...], **keywords: Any) -> int:
        limits = {axis: keywords.pop(f"max_{axis}") for axis in LIMITED}
        most = {axis: limit for axis, limit in limits.items() if limit is not None}
        return command(fixed=parse_fixed(fix), most=most, **keywords)

    for option in reversed(_OPTIONS):
        with_axes = option(with_axes)
    return with_axes


def option_of(field: str) -> str:
    """Return the option of a field of the question, as messages name it."""
    kind, _colon, axis = field.partition(": ")
    if kind == "fixed":
        return f"{_FIX}: {axis}"
    if kind == "most":
        return f"--max-{axis}"
    return {"devices": "--gpus", "sequence": "--seq", "vocabulary": "--vocab"}.get(
        field, f"--{field.replace('_', '-')}"
    )


def parse_fixed(texts: Iterable[str]) -> Mapping[Axis, Value]:
    """Return the values of ``--fix`` by axis.

    Raises:
        InputError: a text of another form, an unknown axis, a value that the axis never has, or two for one axis.
    """
    decided: dict[Axis, Value] = {}
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, _equals, value = (part.strip() for part in item.partition("="))
        if not (name and value):
            raise InputError(value=item, rule=_("must be NAME=VALUE, such as tensor=8"), place=_FIX)
        if name not in tuple(Axis):
            near = nearest(name, map(str, Axis))
            remedy = _("did you mean {near!r}?", near=near) if near else ""
            rule = _("must be one of {names}", names=", ".join(Axis))
            raise InputError(value=name, rule=rule, place=_FIX, remedy=remedy)
        axis = Axis(name)
        if axis in decided:
            raise InputError(value=item, rule=_("must say {name} once", name=name), place=_FIX)
        decided[axis] = _value(axis, value)
    return decided


def _value(axis: Axis, text: str) -> Value:
    place = f"{_FIX}: {axis}"
    if axis is Axis.SCHEDULE:
        return family_name(text, place=place)
    if axis is Axis.ZERO:
        if text not in tuple(Sharding):
            raise InputError(value=text, rule=_("must be one of {names}", names=", ".join(Sharding)), place=place)
        return int(text)
    number: Any = as_number(text, RANGES[axis])
    RANGES[axis].check(number, place=place)
    return int(number)
