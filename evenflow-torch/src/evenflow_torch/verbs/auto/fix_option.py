"""``--fix``: degrees of parallelism and placements of parameters that every plan keeps to."""

from collections.abc import Iterable
from typing import Any

from evenflow.asking import asked
from evenflow.cli.shared.numbers import as_number
from evenflow.errors import InputError
from evenflow.fields import check_one_of, did_you_mean
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.ranges import DEVICES

OPTION = "--fix"
DEGREES = ("tensor", "data", "context", "expert", "pipeline")
ZERO = "zero"


FIX = asked(
    option=OPTION,
    is_multiple=True,
    metavar="NAME=VALUE,…",
    help="What every plan must keep to: degrees such as tensor=8,pipeline=4, also data, context, expert; zero=0 to "
    "3; and the split of a parameter, such as lm_head.weight=column or '*.down_proj.weight=row', also replicated "
    "or a dimension's number. May be given several times.",
)


def parse_fixed(texts: Iterable[str]) -> dict[str, Any]:
    """Return the keywords of `evenflow_torch.auto.fixing.fixed.Fixed` that the texts of ``--fix`` say.

    Raises:
        InputError: a text of another form, an unknown degree, a number out of range, or two values for one name.
    """
    decided: dict[str, Any] = {}
    placements: dict[str, str] = {}
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, _equals, value = (part.strip() for part in item.partition("="))
        if not (name and value):
            raise InputError(value=item, rule=_("must be NAME=VALUE, such as tensor=8"), place=OPTION)
        if name in decided or name in placements:
            raise InputError(value=item, rule=_("must say {name} once", name=name), place=OPTION)
        if "." in name or "*" in name:
            placements[name] = value
        else:
            decided[name] = _degree(name, value)
    return {**decided, "placements": tuple(placements.items())} if placements else decided


def _degree(name: str, value: str) -> object:
    if name == ZERO:
        check_one_of(value, Sharding, place=f"{OPTION}: {name}")
        return Sharding(value)
    if name not in DEGREES:
        rule = _("must be one of {names}, or the name of a parameter", names=", ".join((*DEGREES, ZERO)))
        raise InputError(value=name, rule=rule, place=OPTION, remedy=did_you_mean(name, (*DEGREES, ZERO)))
    number = as_number(value, DEVICES)
    DEVICES.check(number, place=f"{OPTION}: {name}")
    return number
