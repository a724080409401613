"""A plan as adapters for lists of layers need it: the layers of each stage, and how many of them recompute."""

from collections.abc import Sequence
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.model import FULL, Plan
from evenflow.profiles.plan_file import read_plan_file
from evenflow.schedule import FAMILIES


def given_plan(plan: Plan | Path | str) -> Plan:
    """Return a plan, read from its file where a path is given.

    Raises:
        InputError: a file that cannot be read or has no plan.
    """
    return plan if isinstance(plan, Plan) else read_plan_file(plan)


def stage_counts(plan: Plan, *, title: str, beside: Sequence[str] = ()) -> tuple[list[int], list[int]]:
    """Return the layers of every stage, and how many first ones of them recompute fully, in the order of the network.

    Raises:
        InputError: a plan with another recomputation than `full` and the kinds `beside` it, or whose stages go back on
            a V; `title` is the framework's name for people.
    """
    others = [kind for kind in plan.used_kinds if kind not in (FULL, *beside)]
    if others:
        rule = _("must be full recomputation for {title}", title=title)
        if beside:
            rule = _("must be of the kinds {names} for {title}", names=", ".join((FULL, *beside)), title=title)
        raise InputError(value=", ".join(others), rule=rule, place="recompute", remedy=_("plan for it with --target"))
    family = FAMILIES.get(plan.schedule)
    if plan.order or family is None or family.is_v_shaped:
        rule = _("must be a family whose chunks go through the ranks from first to last")
        raise InputError(
            value=plan.schedule, rule=rule, place="schedule", remedy=_("plan for {title} with --target", title=title)
        )
    return [count for row in plan.layers for count in row], counts_of_kind(plan, FULL)


def counts_of_kind(plan: Plan, kind: str) -> list[int]:
    """Return how many layers of every stage are under a kind, of a plan whose chunks go round the ranks."""
    return [plan.count(kind, chunk, rank) for chunk in range(plan.num_chunks) for rank in range(plan.num_ranks)]


def check_entries(count: int, layers: Sequence[int], *, head: int, tail: int) -> None:
    """Raise InputError unless `count` entries have the `layers` of all stages between `head` and `tail`."""
    for name, value in (("head", head), ("tail", tail)):
        if not is_integer(value) or value < 0:
            raise InputError(value=value, rule=_("must be a number of entries, zero or more"), place=name)
    if count - head - tail != sum(layers):
        raise InputError(
            value=count - head - tail,
            rule=_("must be as many as the plan has layers ({num_layers})", num_layers=sum(layers)),
            place=_("the entries between head and tail"),
            remedy=_("say how many entries before the first body layer (head) and after the last one (tail) there are"),
        )
    for name, value, stage in (("head", head, layers[0]), ("tail", tail, layers[-1])):
        if value + stage == 0:
            rule = _("must be at least 1 beside a stage without layers")
            raise InputError(value=value, rule=rule, place=name, remedy=_("give every stage a layer"))
