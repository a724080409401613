"""``--fix`` and ``--max-…``: what the user has decided of the degrees."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.asking import Metadata, asked, optional
from evenflow.cli.shared.numbers import as_number
from evenflow.cli.shared.training.sections import DEGREES
from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.schedule import family_name
from evenflow.tune.axes import Axis, Value
from evenflow.tune.limits import LIMITED, RANGES

_FIX = "--fix"


def _most(axis: Axis, help_text: str) -> Metadata:
    return asked(RANGES[axis], option=f"--max-{axis}", section=DEGREES, metavar="N", help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisOptions:
    """What is decided of the degrees: an option for each field."""

    fix: tuple[str, ...] = optional(
        _FIX,
        default=(),
        section=DEGREES,
        is_multiple=True,
        metavar="NAME=VALUE,…",
        help="What every configuration must have, such as tensor=8,pipeline=4; also "
        f"{', '.join(axis for axis in Axis if axis not in ('tensor', 'pipeline'))}. May be given several times.",
    )
    max_tensor: int | None = field(
        default=None,
        metadata=_most(Axis.TENSOR, "Largest tensor-parallel degree.  [default: the devices that fast links connect]"),
    )
    max_context: int | None = field(
        default=None,
        metadata=_most(Axis.CONTEXT, "Largest context-parallel degree.  [default: 1,024 tokens are left on a device]"),
    )
    max_expert: int | None = field(
        default=None,
        metadata=_most(Axis.EXPERT, "Largest expert-parallel degree.  [default: the number of experts]"),
    )
    max_pipeline: int | None = field(
        default=None, metadata=_most(Axis.PIPELINE, "Most pipeline ranks.  [default: one for each layer]")
    )
    max_chunks: int | None = field(
        default=None, metadata=_most(Axis.CHUNKS, "Most model chunks of a rank.  [default: 8]")
    )
    max_microbatch: int | None = field(
        default=None, metadata=_most(Axis.MICROBATCH, "Most sequences of a microbatch.  [default: 16]")
    )

    @property
    def fixed(self) -> Mapping[Axis, Value]:
        """The values that are decided, by axis; raises InputError for a text that says none."""
        return parse_fixed(self.fix)

    @property
    def most(self) -> Mapping[Axis, int]:
        """The largest values, by axis, where they are given."""
        limits = {axis: getattr(self, f"max_{axis}") for axis in LIMITED}
        return {axis: limit for axis, limit in limits.items() if limit is not None}


def option_of(name: str) -> str:
    """Return the option of a field of the question, as messages name it."""
    kind, _colon, axis = name.partition(": ")
    if kind == "fixed":
        return f"{_FIX}: {axis}"
    if kind == "most":
        return f"--max-{axis}"
    return {"devices": "--gpus", "sequence": "--seq", "vocabulary": "--vocab"}.get(name, f"--{name.replace('_', '-')}")


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
        check_one_of(name, Axis, place=_FIX, suggests=True)
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
        check_one_of(text, Sharding, place=place)
        return int(text)
    number: Any = as_number(text, RANGES[axis])
    RANGES[axis].check(number, place=place)
    return int(number)
