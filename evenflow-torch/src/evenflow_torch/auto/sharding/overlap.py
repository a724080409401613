"""Which exchanges run under computation, and how long a step then takes.

    a pass takes   max(hideable, compute + slowed x hideable) + everything else

for the forward and the backward of every microbatch; what is exchanged once a step runs under the first forward
(parameters after their update) or the last backward (summed gradients), beside what that pass hides already. Costs of
layers are worked out layer by layer: an exchange of one layer runs under about as much work of its neighbour.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from evenflow.cluster.reached import SLOWED
from evenflow.language import _, joined
from evenflow.predict.pricing import under_ns, without_ns
from evenflow.predict.work import UNDER_PRODUCTS
from evenflow_torch.auto.sharding.sharding_plan import CostPart, CostParts, Phase


class Purpose(Enum):
    """The purpose for which a tensor moves between devices."""

    GATHER = "gather"
    """A parameter, to where it is used."""
    REDUCTION = "reduction"
    """A microbatch's gradient, to where gradients are summed."""
    STEP_REDUCTION = "step-reduction"
    """A summed gradient, once a step, to where it is used."""
    STEP_GATHER = "step-gather"
    """An updated parameter, once a step, to where it is kept."""
    PRODUCT = "product"
    """What a matrix product takes or gives."""
    OTHER = "other"

    @property
    def is_once(self) -> bool:
        """Whether this happens once a step."""
        return self in (Purpose.STEP_REDUCTION, Purpose.STEP_GATHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The exchanges that run under computation; the names are those of `evenflow predict`."""

    parameters: bool = True
    """Parameters are gathered for a layer while the one before it computes, and after the optimizer under the first
    forward."""
    gradients: bool = True
    """Gradients are reduced while the backward goes on."""
    tensor: bool = False
    """What products take and give moves while they compute, most of it."""

    @staticmethod
    def of(names: Iterable[str]) -> "Overlap":
        """Return the overlap in which only the named exchanges run under computation."""
        chosen = set(names)
        return Overlap(**{name: name in chosen for name in ("parameters", "gradients", "tensor")})

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the exchanges that run under computation."""
        return (name for name in ("tensor", "gradients", "parameters") if getattr(self, name))

    def share(self, purpose: Purpose) -> float:
        """Return the share of an exchange that can run under computation."""
        match purpose:
            case Purpose.GATHER | Purpose.STEP_GATHER:
                return float(self.parameters)
            case Purpose.REDUCTION | Purpose.STEP_REDUCTION:
                return float(self.gradients)
            case Purpose.PRODUCT:
                return UNDER_PRODUCTS * self.tensor
        return 0.0

    @staticmethod
    def window(purpose: Purpose, *, backward: bool) -> Phase:
        """Return the pass that an exchange can run under; `backward` is the pass that it is for."""
        if purpose.is_once:
            return Phase.BACKWARD if purpose is Purpose.STEP_REDUCTION else Phase.FORWARD
        return Phase.BACKWARD if backward else Phase.FORWARD

    def note(self) -> str:
        """Return a sentence that says which exchanges are assumed to run under computation."""
        names = (
            [_("gathers of parameters under the layer before them")] * self.parameters
            + [_("reductions of gradients under the backward")] * self.gradients
            + [_("tensor-parallel collectives under matrix products")] * self.tensor
        )
        if not names:
            return _("no communication inside a stage runs under computation")
        return _("communication that runs under computation: {names}", names=joined(names))


ALONE = Overlap(parameters=False, gradients=False)
"""One thing after the other."""
USUAL = Overlap()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A kind of work or exchange in a step, for adding up its time."""

    phase: Phase
    part: CostPart
    window: Phase | None = None
    """The pass that it can run under; None: it is exposed."""
    inside: bool = False
    """Whether it is hidden under the operator that it belongs to."""


def saved_ns(exchange_ns: float, work_ns: float) -> int:
    """Return the time saved by running an exchange under work instead of after it."""
    return math.floor(without_ns(under_ns(exchange_ns, work_ns)))


Amounts = Mapping[Item, float]
"""Nanoseconds of a step by item; amounts of layers add up, their times do not."""


def step_costs(amounts: Amounts, num_microbatches: int) -> CostParts:
    """Return the costs of a step with these amounts, exposed and hidden time apart."""
    exposed: Counter[tuple[Phase, CostPart]] = Counter()
    hidden: Counter[Phase] = Counter()
    for item, amount in amounts.items():
        if item.inside:
            hidden[item.phase] += round(amount)
        elif item.window is None:
            exposed[item.phase, item.part] += round(amount)
    for window in (Phase.FORWARD, Phase.BACKWARD):
        busy_ns = sum(amount for item, amount in amounts.items() if item.inside and item.phase is window) / SLOWED
        work_ns = (amounts.get(Item(phase=window, part=CostPart.COMPUTE), 0.0) - busy_ns) / num_microbatches
        every = {item: amount for item, amount in amounts.items() if item.window is window and amount}
        repeated = {item: amount / num_microbatches for item, amount in every.items() if item.phase is not Phase.UPDATE}
        once = {item: amount for item, amount in every.items() if item.phase is Phase.UPDATE}
        each_ns, once_ns = sum(repeated.values()), sum(once.values())
        steady, last = saved_ns(each_ns, work_ns), saved_ns(each_ns + once_ns, work_ns)
        for items, saved, times in ((repeated, steady, num_microbatches), (once, last - steady, 1)):
            for item, time_ns in _shared(items, round(sum(items.values())) - saved).items():
                exposed[item.phase, item.part] += times * time_ns
        under = under_ns(each_ns, work_ns)
        hidden[window] += num_microbatches * round(under)
        hidden[Phase.UPDATE] += round(under_ns(each_ns + once_ns, work_ns) - under)

    by_part = {
        f"{part}_ns": sum(time_ns for (_phase, own), time_ns in exposed.items() if own is part) for part in CostPart
    }
    by_phase = {
        f"{phase}_ns": sum(time_ns for (own, _part), time_ns in exposed.items() if own is phase) for phase in Phase
    }
    return CostParts(
        **by_part,
        **by_phase,
        hidden_ns=hidden[Phase.FORWARD] + hidden[Phase.BACKWARD],
        hidden_update_ns=hidden[Phase.UPDATE],
    )


def _shared(items: Amounts, total_ns: int) -> dict[Item, int]:
    """Return each item's share of a total, in proportion to its amount."""
    whole, left = sum(items.values()), total_ns
    parts: dict[Item, int] = {}
    for at, (item, amount) in enumerate(items.items(), 1):
        parts[item] = left if at == len(items) else int(total_ns * amount / whole)
        left -= parts[item]
    return parts
