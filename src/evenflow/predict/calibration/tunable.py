"""The parameters that can be fitted: how well each is known beforehand, and which runs can determine it.

A fit works on the logarithm of a value over what it was, so that it never leaves the values that are possible, and so
that runs on several accelerators can be fitted together.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenflow import ranges
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _
from evenflow.predict.calibration.measurement import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """A parameter of `Reached`."""

    name: str
    width: float
    """Standard deviation of the logarithm of its value as known before: 0.1 is about ± 10 %."""
    absent: Callable[[], str]
    """Why no run says anything of it, where none does."""
    quantity: Quantity = Quantity.TIME
    """What it changes."""
    shift: float = 0.0
    """What is added to the value before the logarithm is taken, for one that can be zero; -1 for one of at least 1."""

    @property
    def most(self) -> float:
        """The largest possible value."""
        if self.shift < 0:
            return float(ranges.PAIR_SLOWDOWN.most)
        return 1.0 if self.name.endswith("_share") and self.quantity is Quantity.TIME else math.inf

    def value(self, reached: Reached) -> float:
        """Return the value in `reached`."""
        return float(getattr(reached, self.name))

    def moved(self, reached: Reached, by: float) -> float:
        """Return the value in `reached` after its logarithm has changed by `by`, within what is possible."""
        return min(self.most, max(0.0, (self.value(reached) + self.shift) * math.exp(by) - self.shift))

    def room(self, reached: Reached) -> tuple[float, float]:
        """Return by how much the logarithm can change, down and up."""
        shifted = self.value(reached) + self.shift
        if not shifted:  # such a value cannot move
            return 0.0, 0.0
        down = math.log(self.shift / shifted) if self.shift > 0 else -math.inf
        return down, math.log((self.most + self.shift) / shifted) if math.isfinite(self.most) else math.inf

    def unit(self, value: float) -> float:
        """Return by how much the value changes with its logarithm."""
        return value + self.shift


PAIR_SLOWDOWN = Tunable(
    name="pair_slowdown",
    width=1.0,
    shift=-1.0,
    absent=lambda: _("no run hides traffic between experts under computation"),
)
"""Fitted by itself, behind all others: see `contention`."""
TUNABLES: Mapping[str, Tunable] = {
    tunable.name: tunable
    for tunable in (
        Tunable(name="product_share", width=0.3, absent=lambda: _("no run waits for matrix products")),
        Tunable(name="operator_ns", width=1.0, absent=lambda: _("no run waits for the launch of operators")),
        Tunable(name="network_share", width=1.0, absent=lambda: _("no run waits for transfers between nodes")),
        Tunable(name="link_share", width=1.0, absent=lambda: _("no run waits for transfers inside a node")),
        Tunable(name="memory_share", width=0.5, absent=lambda: _("no run waits for memory traffic")),
        Tunable(name="step_ns", width=1.5, absent=lambda: _("it is too short compared with the steps")),
        Tunable(name="latency_ns", width=1.2, absent=lambda: _("no run waits for the latency of collectives")),
        Tunable(name="low_precision_share", width=0.4, absent=lambda: _("no run has products in 8 or 4 bits")),
        Tunable(name="attention_share", width=0.6, absent=lambda: _("no run waits for fused attention")),
        Tunable(
            name="ramp_depth", width=0.6, shift=256.0, absent=lambda: _("no run has short sums in its matrix products")
        ),
        PAIR_SLOWDOWN,
        Tunable(
            name="reserve_share",
            width=0.2,
            shift=1.0,
            quantity=Quantity.MEMORY,
            absent=lambda: _("no run states the memory that its device showed or reserved"),
        ),
        Tunable(
            name="driver_bytes",
            width=0.8,
            shift=2.0**30,
            quantity=Quantity.MEMORY,
            absent=lambda: _("no run states the memory that its device showed"),
        ),
    )
}
"""By name, the most important first: where runs do not determine all of them, later ones are left as they are."""


def tunables(names: Iterable[str]) -> tuple[Tunable, ...]:
    """Return the parameters called `names`, the most important first; all of them where there are no names.

    Raises:
        InputError: a name that no parameter has, or one that comes twice.
    """
    chosen = list(names)
    for name in chosen:
        check_one_of(name, PARAMETERS, place="names", suggests=True)
        if chosen.count(name) > 1:
            raise InputError(value=name, rule=_("is given twice"), place="names")
    return tuple(tunable for tunable in TUNABLES.values() if not chosen or tunable.name in chosen)
