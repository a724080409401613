"""The plans in a report: the HTML page that `evenflow.report` writes carries the plan files that it shows."""

import re
from dataclasses import dataclass
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json, read_text
from evenflow.language import _

_START = re.compile(r"\s*<!doctype html", re.IGNORECASE)
_HEAD = re.compile(r'<script type="application/json" id="evenflow-head">(.*?)</script>', re.DOTALL)
_DATA = re.compile(r'<script type="text/plain" id="evenflow-data">(.*?)</script>', re.DOTALL)
_PLAN = re.compile(r'<script type="application/json" id="evenflow-plan-\d+">(.*?)</script>', re.DOTALL)
_NUMBERED = re.compile(r"(.+\.html?)#(\d{1,4})", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedPlan:
    """A plan file in a report."""

    name: str
    """What the report calls the plan."""
    text: str
    place: str
    """The file and the number of the plan, for messages."""


def is_report(text: str) -> bool:
    """Return whether a text is HTML, and no plan file can be read of it but one that it carries."""
    return _START.match(text) is not None


def head_of(text: str, *, place: str) -> str:
    """Return the JSON that says what a report shows; raises InputError for a page that is no report."""
    match = _HEAD.search(text)
    if match is None:
        raise _no_report(place)
    return match[1]


def data_of(text: str, *, place: str) -> str:
    """Return the numbers of a report's actions, as they are packed; raises InputError where they are not there."""
    match = _DATA.search(text)
    if match is None:
        raise _no_report(place)
    return match[1]


def plans_of(text: str) -> list[str]:
    """Return the plan files in the text of a report, in their order."""
    return _PLAN.findall(text)


def carried_plans(text: str, *, place: str) -> tuple[CarriedPlan, ...]:
    """Return the plan files in the text of a report, in the order of its timelines; `place` names the file.

    Raises:
        InputError: a page that evenflow did not write, that was damaged, or that has no plan.
    """
    head, plans = head_of(text, place=place), plans_of(text)
    rule = _("must be a report with a plan in it")
    if not plans:
        raise InputError(rule=rule, place=place, remedy=_("name a plan file, or a report of a plan"))
    timelines = as_fields(load_json(head, file=place), file=place).objects("timelines")
    names = [timeline.text("name") for timeline in timelines if timeline.values.get("plan") is not None]
    if len(names) != len(plans):
        raise InputError(rule=rule, place=place, remedy=_("write the report again: this one is damaged"))
    return tuple(
        CarriedPlan(name=name, text=plan, place=f"{place}#{number}")
        for number, (name, plan) in enumerate(zip(names, plans, strict=True), start=1)
    )


def numbered(path: str) -> tuple[str, int]:
    """Return the file and the number of a plan that ``report.html#2`` names; of a report without a number the first.

    >>> numbered("plans/report.html#2"), numbered("plan.json")
    (('plans/report.html', 2), ('plan.json', 1))
    """
    match = _NUMBERED.fullmatch(path)
    if match is None or Path(path).exists():
        return path, 1
    return match[1], int(match[2])


def plan_text(text: str, *, place: str, number: int = 1) -> tuple[str, str]:
    """Return the text of a plan file, and its name: the text as it is, or of a report its plan of that number.

    Raises:
        InputError: as `carried_plans` does, or a report without so many plans.
    """
    if not is_report(text):
        return text, place
    plans = carried_plans(text, place=place)
    if not 1 <= number <= len(plans):
        names = ", ".join(f"#{index} {plan.name}" for index, plan in enumerate(plans, start=1))
        raise InputError(
            value=number,
            rule=_("must have a plan of that number"),
            place=place,
            remedy=_("it has {names}", names=names),
        )
    return plans[number - 1].text, plans[number - 1].place


def read_plan_text(path: Path | str) -> tuple[str, str]:
    """Return the text of a plan file or of a plan in a report, and its name for messages; see `plan_text`."""
    file, number = numbered(str(path))
    return plan_text(read_text(file), place=file, number=number)


def _no_report(place: str) -> InputError:
    rule = _("must be a report that evenflow wrote")
    return InputError(rule=rule, place=place, remedy=_("name a plan file, or a report"))
