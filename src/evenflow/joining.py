"""What installed packages bring to evenflow by entry points: schedules, targets, accelerators, verbs.

A package names its values in its own ``pyproject.toml``, and evenflow knows them from then on::

    [project.entry-points."evenflow.schedules"]
    my-1f1b = "my_package:FAMILY"

Nothing is loaded before somebody asks for the group, so importing evenflow stays cheap.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from evenflow.errors import InputError
from evenflow.language import _

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Value = TypeVar("Value")

SCHEDULES, TARGETS, ACCELERATORS, VERBS = (
    "evenflow.schedules",  # values of `evenflow.schedule.family.ScheduleFamily`
    "evenflow.targets",  # values of `evenflow.targets.target.Target`
    "evenflow.accelerators",  # values of `evenflow.cluster.Accelerator`
    "evenflow.verbs",  # commands of click
)
REFINERS = "evenflow.refiners"
"""Values of `evenflow.tune.answers.two_level.Refiner`, for ``evenflow tune --refine NAME``."""


@cache
def entry_points_of(group: str) -> "dict[str, EntryPoint]":
    """Return the entry points of a group by name; raises InputError where two packages bring the same name."""
    from importlib.metadata import entry_points  # whatever starts imports this module; few ask for a group

    by_name: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        other = by_name.get(point.name)
        if other is not None and other.value != point.value:
            raise _fault(point, _("must be unique, but {other} brings the same name", other=_package(other)))
        by_name[point.name] = point
    return by_name


def loaded(point: "EntryPoint", kind: type[Value]) -> Value:
    """Return the value of an entry point; raises InputError where it cannot be imported or is not of its `kind`."""
    try:
        value = point.load()
    except Exception as error:
        raise _fault(point, _("must be importable: {error}", error=f"{type(error).__name__}: {error}")) from error
    if not isinstance(value, kind):
        raise _fault(point, _("must be a value of {kind}", kind=f"{kind.__module__}.{kind.__qualname__}"))
    return value


def joined(group: str, kind: type[Value]) -> Mapping[str, Value]:
    """Return what packages bring to a group, by name and in the order of names.

    Raises:
        InputError: a value that cannot be loaded or is not of its `kind`, or a name that two packages use.
    """
    return {name: loaded(point, kind) for name, point in entry_points_of(group).items()}


class Registry(Mapping[str, Value], Generic[Value]):
    """evenflow's own values by name, and after them those of installed packages, which are loaded when first needed."""

    def __init__(self, own: Mapping[str, Value], group: str, kind: type[Value]) -> None:
        self.own = own
        self._group, self._kind = group, kind

    def __getitem__(self, name: str) -> Value:
        return self.own[name] if name in self.own else self._others()[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._others()

    def __len__(self) -> int:
        return len(self.own) + len(self._others())

    def _others(self) -> Mapping[str, Value]:
        others = joined(self._group, self._kind)
        for name in others.keys() & self.own.keys():
            rule = _("must be a name that evenflow does not have itself")
            raise _fault(entry_points_of(self._group)[name], rule)
        return others


def _fault(point: "EntryPoint", rule: str) -> InputError:
    package = _package(point)
    return InputError(
        value=point.value,
        rule=rule,
        place=_("{package}, entry point {name} of {group}", package=package, name=point.name, group=point.group),
        remedy=_("update or uninstall {package}", package=package),
    )


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else _("a package without a name")
